"""The cores and GPUs of this machine, found without starting CUDA."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
SHARED_OUT: Final = ("auto", "cuda")  # devices that name no GPU in particular
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")
_SECONDS: Final = 20  # for nvidia-smi


def cores(quota: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use, at least 1.

    Fewer than the machine has if the process is bound to some, or runs in a container with a quota
    (cgroup v2), as jobs of Kubernetes do.

    Args:
        quota: file with the quota and the period in microseconds.
    """
    result = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        result = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        allowed, period = quota.read_text("ascii").split()
        result = min(result, math.ceil(int(allowed) / int(period)))
    return max(1, result)


def visible_gpus(
    environ: Mapping[str, str] = os.environ, find_gpus: Callable[[], list[str]] | None = None
) -> list[str]:
    """Return the GPUs that this process may use, as entries of `CUDA_VISIBLE_DEVICES`.

    Args:
        environ: environment variables, whose own list of numbers or UUIDs takes precedence.
        find_gpus: returns all GPUs of the machine without starting CUDA.
    """
    if VISIBLE not in environ:
        return (find_gpus or all_gpus)()
    gpus: list[str] = []
    for entry in map(str.strip, environ[VISIBLE].split(",")):
        # CUDA stops reading at the first invalid entry.
        if not re.fullmatch(r"\d+|(GPU|MIG)-.+", entry):
            break
        gpus.append(entry)
    return gpus


def all_gpus() -> list[str]:
    """Return all GPUs that NVIDIA's driver lists; the slices of a GPU that has some (MIG)."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return [str(number) for number, _ in enumerate(sorted(_DRIVER.glob("*")))]
    return parse_listed(listed)


def parse_listed(text: str) -> list[str]:
    """Return the UUIDs in the output of `nvidia-smi -L`; of a sliced GPU, those of the slices."""
    gpus: list[str] = []
    for match in re.finditer(r"UUID: ((GPU|MIG)-[^)\s]+)\)", text):
        if match[2] == "MIG" and gpus and gpus[-1].startswith("GPU-"):
            gpus.pop()  # the GPU whose slices these are
        gpus.append(match[1])
    return gpus
