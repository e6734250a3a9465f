"""Versions, and the processor, that figures depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Final

from grb_check import __version__

NUMERIC: Final = ("torch", "torch-geometric", "numpy")
PROCESSOR: Final = "processor"
THREADS: Final = "threads"
MEASURED: Final = ("grb_check", "python", *NUMERIC, PROCESSOR)  # what figures depend on


def versions() -> dict[str, str]:
    """Return the versions of grb_check, Python and the numeric libraries; imports none of them."""
    return {
        "grb_check": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in NUMERIC},
    }


def processor(device: str) -> str:
    """Return the machine type, the instruction set that torch uses, and the device if it is no CPU.

    Args:
        device: of the run, such as `cpu` or `cuda:1`.
    """
    import torch  # torch has measured the figures; runs that measure nothing do not load it

    name = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    if device == "cpu":
        return name
    return f"{name}, {torch.cuda.get_device_name(device) if 'cuda' in device else device}"


def threads() -> str:
    """Return the number of threads that torch uses for large graphs."""
    import torch  # torch has measured the figures; runs that measure nothing do not load it

    return str(torch.get_num_threads())
