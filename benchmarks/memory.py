"""Peak resident memory of a process, or of a part of its time on Linux."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Reset the peak to what is resident now; without /proc nothing happens."""
    if _RESET.exists():
        _RESET.write_text("5")


def peak_mib() -> int | None:
    """Return the peak resident MiB since `reset_peak` or the start; None if unknown.

    `getrusage` would include the parent's memory at the start of this process.
    """
    if not _STATUS.exists():
        return None
    match = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
    return round(int(match[1]) / 1024) if match else None
