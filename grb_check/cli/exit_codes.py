"""Exit codes of the commands: those of pytest, and of shells for what a signal ended."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
LOST: Final = 3
WRONG_INPUT: Final = 4
NO_CASES: Final = 5
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
