"""Versions that figures depend on; the libraries are not imported."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Final

from grb_check import __version__

NUMERIC: Final = ("torch", "torch-geometric", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of grb_check, Python and the numeric libraries, by name."""
    return {
        "grb_check": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in NUMERIC},
    }
