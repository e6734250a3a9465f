"""Plain text: made fit for a file, clipped, and in columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

SHOWN: Final = "\N{REPLACEMENT CHARACTER}"
DASH: Final = "\N{EN DASH}"

# Control characters but tab and line feed, what else XML 1.0 refuses (surrogates, non-characters),
# and the marks that turn the direction of what follows, so that a name can pose as another.
_UNFIT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufddf\ufffe\uffff"
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
# Colours of a terminal, which a traceback may hold.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def fit(text: object) -> str:
    """Return the text with a mark in place of each character that breaks or hides text."""
    return _UNFIT.sub(SHOWN, _COLOURS.sub("", str(text)).replace("\r\n", "\n"))


def line(text: object) -> str:
    """Return the text likewise, and on one line, so that no name can pose as a line of its own."""
    return fit(text).replace("\n", SHOWN)


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


def count(number: int, one: str, more: str = "") -> str:
    """Return `1 case`, `2 cases`; `more` is the plural if it is not `one` with an s."""
    return f"{number} {one if number == 1 else more or f'{one}s'}"


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
