"""Commands for users to paste into their shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence


def command_line(words: Sequence[str]) -> str:
    """Return the line that passes these words: to a POSIX shell, or on Windows to `cmd`."""
    if sys.platform == "win32":
        return subprocess.list2cmdline(words)
    return shlex.join(words)
