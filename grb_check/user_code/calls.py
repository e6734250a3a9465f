"""Calls into users' code: settings of the process are restored after it, and what it raises is one
error.

A setting that a factory changes, such as `torch.set_grad_enabled(False)`, would otherwise be in
force for the rest of the run, and other models would fail or give other figures. This module has
the one list of what is restored. Global random states are isolated elsewhere, see `randomness`.

| around | restored |
|---|---|
| each forward | `_fast`: settings of torch that are read in less than a microsecond |
| an import | these, `_slow` and `_PROCESS` |
| a call: a factory, a training, an attack, a dataset, and a whole case | these and `_SEARCHED` |

What a module sets when it is imported is restored like the rest, the number of threads included:
it is a setting of the run, on which the rounding of every model depends, and is chosen outside of
it, as by OMP_NUM_THREADS. Only additions to `sys.path` and to the environment stay, because later
imports of that module rely on them.

Imports numpy and torch when it is first used, so that importing the package does not.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from grb_check.errors import GrbCheckError

_OURS: Final = str(Path(__file__).parent.parent)
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))


def short_traceback(error: BaseException, *, limit: int = 5) -> str:
    """Return the last frames of the user's own files, then the error, as Python prints them.

    Frames of this package, of the standard library and of installed packages are left out; if
    there are no others, those of installed packages are shown.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen"))
        # Installed packages usually lie in a directory of the standard library.
        and (frame.filename.startswith(_INSTALLED) or not frame.filename.startswith(_STANDARD))
    ]
    of_user = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
    lines = traceback.format_list((of_user or frames)[-limit:])
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


class Setting(NamedTuple):
    """A setting of the process: `write(read())` changes nothing."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


@contextmanager
def users_code(
    what: str, becomes: type[GrbCheckError], *, passing: type[GrbCheckError] | tuple[()] = ()
) -> Iterator[None]:
    """Run users' code inside; restore all settings after it.

    `KeyboardInterrupt` is never converted.

    Args:
        what: first line of the message, as "model x raised when called".
        becomes: error that any exception and `SystemExit` become, with a short traceback.
        passing: errors of ours that are raised as they are.
    """
    try:
        with restored():
            yield
    except passing:
        raise
    except (Exception, SystemExit) as error:
        raise becomes(f"{what}:\n{short_traceback(error)}") from error


@contextmanager
def restored() -> Iterator[None]:
    """Restore all settings after a call."""
    with _restoring([*_fast(), *_slow(), *_PROCESS, *_SEARCHED]), _same_inference_mode():
        yield


@contextmanager
def restored_after_import() -> Iterator[None]:
    """Restore the settings of torch and of the process, but not where modules are searched."""
    with _restoring([*_fast(), *_slow(), *_PROCESS]), _same_inference_mode():
        yield


@contextmanager
def restored_after_forward() -> Iterator[None]:
    """Restore the settings that are read fast: it takes about 5 microseconds."""
    with _restoring(_fast()):
        yield


@contextmanager
def _restoring(settings: Sequence[Setting]) -> Iterator[None]:
    before = [setting.read() for setting in settings]
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            # One that cannot be restored, as a lower recursion limit than the depth, must not keep
            # the others from it, nor hide what the code raised.
            with suppress(Exception):
                _restore(setting, value)


def _restore(setting: Setting, value: Any) -> None:
    try:
        changed = setting.read() != value
    except AttributeError:  # the code has deleted it
        changed = True
    if changed:
        setting.write(value)


@contextmanager
def _same_inference_mode() -> Iterator[None]:
    """End an inference mode that the code has left on, which only a context around it can do."""
    import torch  # see the docstring of the module

    grad = torch.is_grad_enabled()
    with torch.inference_mode(torch.is_inference_mode_enabled()):
        torch.set_grad_enabled(grad)  # which entering the context has changed
        yield


@cache
def _fast() -> tuple[Setting, ...]:
    import torch  # see the docstring of the module

    return (
        Setting(torch.is_grad_enabled, torch.set_grad_enabled),
        Setting(torch.get_default_dtype, torch.set_default_dtype),
        Setting(torch.get_num_threads, torch.set_num_threads),
        Setting(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        Setting(
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda value: torch.autograd.set_detect_anomaly(*value),
        ),
        Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        *(_autocast(device) for device in ("cpu", "cuda")),
    )


def _autocast(device: str) -> Setting:
    import torch  # see the docstring of the module

    return Setting(
        lambda: torch.is_autocast_enabled(device),
        lambda value: torch.set_autocast_enabled(device, value),
    )


@cache
def _slow() -> tuple[Setting, ...]:
    import numpy as np  # see the docstring of the module
    import torch

    cudnn = torch.backends.cudnn
    return (
        Setting(_default_device, _set_default_device),
        *(_attribute(cudnn, name) for name in ("enabled", "benchmark", "deterministic")),
        _attribute(cudnn, "allow_tf32"),
        Setting(np.geterr, lambda value: np.seterr(**value)),
    )


def _default_device() -> Any:
    import torch  # see the docstring of the module

    try:
        return torch.get_default_device()
    except AttributeError:  # torch 2.4 and 2.5, after `set_default_device(None)`
        return torch.device("cpu")


def _set_default_device(device: Any) -> None:
    import torch  # see the docstring of the module

    # "cpu" as a default slows every call of torch down.
    torch.set_default_device(None if device.type == "cpu" else device)
    try:
        torch.get_default_device()
    except AttributeError:  # so it would for users, too
        torch.set_default_device(device)


def _attribute(owner: object, name: str) -> Setting:
    return Setting(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _content(owner: object, name: str) -> Setting:
    """A list, whose items are restored."""

    def write(items: list[Any]) -> None:
        getattr(owner, name)[:] = items

    return Setting(lambda: list(getattr(owner, name)), write)


def _working_directory() -> str | None:
    with suppress(OSError):  # it was removed
        return os.getcwd()
    return None


def _change_directory(path: str | None) -> None:
    if path is not None:
        with suppress(OSError):  # the code has removed it
            os.chdir(path)


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()  # also forgets which warnings were given under the other filters
    warnings.filters[:] = filters  # type: ignore[index]


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


_PROCESS: Final = (
    Setting(_working_directory, _change_directory),
    *(_attribute(sys, name) for name in ("stdin", "stdout", "stderr")),
    _content(sys, "argv"),
    Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    Setting(lambda: list(warnings.filters), _set_filters),
    Setting(lambda: logging.getLogger().level, lambda level: logging.getLogger().setLevel(level)),
    Setting(lambda: logging.root.manager.disable, logging.disable),
)
_SEARCHED: Final = (
    _content(sys, "path"),
    Setting(lambda: dict(os.environ), _set_environment),
)
