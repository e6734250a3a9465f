"""Plain text: clipped, counted, and in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

DASH: Final = "\N{EN DASH}"


def clipped(text: str, length: int) -> str:
    """Return the text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def points(fraction: float) -> str:
    """Return a difference of fractions in percentage points: `+5.2`, `-0.3`, `0.0`."""
    value = round(100 * fraction, 1)
    return f"{value:+.1f}" if value else "0.0"


def percent(fraction: float | None) -> str:
    """Return `31.2%`; a dash for None."""
    return DASH if fraction is None else f"{fraction:.1%}"


def enumerated(texts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows of cells as aligned lines; columns in `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
