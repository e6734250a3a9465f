"""The number of processes that a machine has room for. Loads no torch."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def cores(quota: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use, at least 1.

    Fewer than the machine has if the process is bound to some, or runs in a container with a quota
    (cgroup v2), as jobs of Kubernetes do.

    Args:
        quota: file with the quota and the period in microseconds.
    """
    found = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        allowed, period = quota.read_text("ascii").split()
        found = min(found, math.ceil(int(allowed) / int(period)))
    return max(1, found)
