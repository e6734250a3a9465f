"""Versions, and the processor, that figures depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Final

from grb_check import __version__

NUMERIC: Final = ("torch", "torch-geometric", "numpy")
PROCESSOR: Final = "processor"
THREADS: Final = "threads"
PACK: Final = "pack"  # digest of the file that the perturbations are from; not there without one
MEASURED: Final = ("grb_check", "python", *NUMERIC, PROCESSOR)  # what figures depend on


def versions() -> dict[str, str]:
    """Return the versions of grb_check, Python and the numeric libraries; imports none of them."""
    return {
        "grb_check": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in NUMERIC},
    }


def measured_with(device: str) -> dict[str, str]:
    """Return what else figures depend on: the processor, and the threads that torch uses.

    Args:
        device: that measured them, such as `cpu` or `cuda:1`.
    """
    import torch  # torch has measured the figures; runs that measure nothing do not load it

    return {PROCESSOR: _processor(device), THREADS: str(torch.get_num_threads())}


def _processor(device: str) -> str:
    """The machine type, the instruction set that torch uses, and the device if it is no CPU."""
    import torch  # torch has measured the figures, see `measured_with`

    name = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    if device == "cpu":
        return name
    return f"{name}, {torch.cuda.get_device_name(device) if 'cuda' in device else device}"
