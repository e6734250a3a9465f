"""Settings of the process that users' code changes, and the errors that it raises."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import AttackError, ModelError
from grb_check.user_code.calls import (
    restored,
    restored_after_forward,
    users_code,
)

Seen = Mapping[str, object]


def _leave_inference_mode_on() -> None:
    _LEFT.append(torch.inference_mode())
    _LEFT[-1].__enter__()


_LEFT: Final[list[torch.inference_mode]] = []

# What a hostile or careless factory does, by what it changes.
FAST: Final[Mapping[str, Callable[[], object]]] = {
    "grad": lambda: torch.set_grad_enabled(False),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "check nan": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "precision": lambda: torch.set_float32_matmul_precision("medium"),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
}
OTHER: Final[Mapping[str, Callable[[], object]]] = {
    "device": lambda: torch.set_default_device("meta"),
    "inference": _leave_inference_mode_on,
    "cudnn": lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
    "numpy": lambda: np.seterr(all="raise"),
    "directory": lambda: os.chdir(".."),
    "stdout": lambda: setattr(sys, "stdout", None),
    "arguments": sys.argv.clear,
    "arguments list": lambda: setattr(sys, "argv", ["other"]),
    "recursion": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1000),
    "filters": lambda: warnings.simplefilter("error"),
    "no filters": warnings.resetwarnings,
    "log level": lambda: logging.getLogger().setLevel(logging.CRITICAL),
    "log": lambda: logging.disable(logging.CRITICAL),
}
SEARCHED: Final[Mapping[str, Callable[[], object]]] = {
    "path": lambda: sys.path.insert(0, "nowhere"),
    "path list": lambda: setattr(sys, "path", ["nowhere"]),
    "environment cleared": os.environ.clear,
    "environment": lambda: os.environ.update(GRB_CHECK_TEST="1"),
}
ALL: Final = {**FAST, **OTHER, **SEARCHED}


def _seen() -> Seen:
    """Every setting that the changes above touch, and what follows from it."""
    return {
        "grad": torch.is_grad_enabled(),
        "dtype": (torch.get_default_dtype(), torch.zeros(1).dtype),
        "threads": torch.get_num_threads(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "anomaly": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "precision": torch.get_float32_matmul_precision(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "device": (torch.get_default_device(), torch.zeros(1).device),
        "inference": (torch.is_inference_mode_enabled(), torch.zeros(1).is_inference()),
        "cudnn": torch.backends.cudnn.benchmark,
        "numpy": np.geterr(),
        "directory": Path.cwd(),
        "streams": (id(sys.stdin), id(sys.stdout), id(sys.stderr)),
        "arguments": list(sys.argv),
        "recursion": sys.getrecursionlimit(),
        "filters": list(warnings.filters),
        "log": (logging.getLogger().level, logging.root.manager.disable),
        "path": list(sys.path),
        "environment": dict(os.environ),
    }


@given(names=st.lists(st.sampled_from(sorted(ALL)), max_size=6), fails=st.booleans())
def test_a_call_changes_no_setting(names: list[str], fails: bool) -> None:
    """Whatever it changes, in any order, also if it raises."""
    before = _seen()
    try:
        with restored():
            for name in names:
                ALL[name]()
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert _seen() == before


@given(names=st.lists(st.sampled_from(sorted(FAST)), max_size=4))
def test_a_forward_changes_no_setting_that_others_compute_with(names: list[str]) -> None:
    """The settings of torch that are read fast; see the table of the module for others."""
    before = _seen()
    with restored_after_forward():
        for name in names:
            FAST[name]()
    assert _seen() == before


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no weights"), "ValueError: no weights"),
        (SystemExit(3), "SystemExit: 3"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (MemoryError(), "MemoryError"),
        (ModelError("of another"), "grb_check.errors.ModelError: of another"),
    ],
)
def test_what_the_code_raises_becomes_one_error(error: BaseException, line: str) -> None:
    """With the lines of the user's code, and the original as the cause."""
    with pytest.raises(AttackError) as caught, users_code("attack a raised", AttackError):
        _raise(error)
    first, *_, last = str(caught.value).splitlines()
    assert (first, last) == ("attack a raised:", line)
    assert caught.value.__cause__ is error


def test_an_interrupt_stays_one() -> None:
    """The person at the keyboard ends the run."""
    with pytest.raises(KeyboardInterrupt), users_code("attack a raised", AttackError):
        raise KeyboardInterrupt


def _raise(error: BaseException) -> Any:
    raise error
