"""The GPUs of this machine, and the one that each worker of pytest-xdist sees."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from grb_check.runs.workers.resources import SHARED_OUT, VISIBLE, visible_gpus
from grb_check.settings.options import OPTIONS

_WORKER: Final = "PYTEST_XDIST_WORKER"


class WorkerWarning(UserWarning):
    """A worker could not be given a GPU of its own."""


def take_gpu(config: pytest.Config) -> str | None:
    """Make a single GPU visible to a worker, before anything of CUDA is loaded.

    Args:
        config: pytest's, before the user's conftest.py is imported.

    Returns:
        The reason why the worker sees all GPUs, if users should know it; else None.
    """
    worker = os.environ.get(_WORKER)
    if worker is None or requested_device(config) not in SHARED_OUT:
        return None
    chosen = gpu_of(worker, visible_gpus())
    if chosen is None:
        return None
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return (
            f"worker {worker} should see GPU {chosen} alone, but CUDA was in use before pytest "
            f"loaded grb_check, so that workers may share a GPU; find the plugin or .pth file "
            f"that does it, or give --grb-device=cuda:N"
        )
    os.environ[VISIBLE] = chosen
    return None


def requested_device(config: pytest.Config) -> str | None:
    """Return `--grb-device` before options are parsed; None if the plugin is not in use."""
    given = vars(config.known_args_namespace)
    named = any(given.get(option.dest) not in (None, False) for option in OPTIONS)
    flags = any(given.get(flag) for flag in ("grb_only", "grb_update_baseline"))
    pasted = any(str(argument).startswith("grb::") for argument in given.get("file_or_dir") or ())
    if not (named or flags or pasted or config.getini("grb_model")):
        return None
    return str(given.get("grb_device") or config.getini("grb_device") or "auto").strip()


def gpu_of(worker: str, gpus: Sequence[str]) -> str | None:
    """Return the GPU of worker gwK: entry K of the list, which is repeated as needed."""
    number = re.fullmatch(r"gw(\d+)", worker)
    return gpus[int(number[1]) % len(gpus)] if number and gpus else None


def gpu_lines(gpus: Sequence[str]) -> list[str]:
    """Return the line of pytest's header on how workers share GPUs; none for a single GPU."""
    if len(gpus) < 2:
        return []
    return [f"grb GPUs: one for each worker in turn, of {', '.join(gpus)}"]
