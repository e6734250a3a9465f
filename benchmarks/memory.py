"""The peak of resident memory, of a span of a process where Linux tells it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Let the peak begin anew at what is resident now; nothing happens where that is not known."""
    if _RESET.exists():
        _RESET.write_text("5")


def peak_mib() -> int | None:
    """Most resident MiB since `reset_peak`, or since the process began; None where unknown.

    `getrusage` would count what the parent had when it started this process.
    """
    if not _STATUS.exists():
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
    return round(int(found[1]) / 1024) if found else None
