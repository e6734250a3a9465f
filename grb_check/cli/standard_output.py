"""Standard output with the two calls of pytest's reporter that our tables need."""

from __future__ import annotations

import sys
from typing import Any, Final

WIDTH: Final = 80


class StandardOutput:
    """Plain lines: colours are for terminals, and merging is for pipelines."""

    def section(self, title: str, sep: str = "=", **_markup: Any) -> None:
        """Write a title across the screen."""
        sys.stdout.write(f"{f' {title} '.center(WIDTH, sep)}\n")

    def write_line(self, line: str, **_markup: Any) -> None:
        """Write a line."""
        sys.stdout.write(f"{line}\n")
