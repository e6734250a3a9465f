"""Text of others, made fit for a file: no character that breaks it or hides what it says."""

from __future__ import annotations

import re
from typing import Final

SHOWN: Final = "\N{REPLACEMENT CHARACTER}"
DASH: Final = "\N{EN DASH}"

# What XML 1.0 refuses (control characters, surrogates, two non-characters), and the marks that
# turn the direction of what follows, with which a name can pose as another.
_UNFIT: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufddf\ufffe\uffff"
    "\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# What a terminal is told about colours, which a traceback may hold.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def fit(text: object) -> str:
    """The text, with a mark for each character that no report can hold."""
    return _UNFIT.sub(SHOWN, _COLOURS.sub("", str(text)).replace("\r\n", "\n"))


def clipped(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def points(fraction: float) -> str:
    """A difference of fractions in points with its sign: `+5.2`, `-0.3`, `0.0`."""
    value = round(100 * fraction, 1)
    return f"{value:+.1f}" if value else "0.0"


def percent(fraction: float | None) -> str:
    """`31.2%`; a dash where there is none."""
    return DASH if fraction is None else f"{fraction:.1%}"


def count(number: int, one: str, more: str = "") -> str:
    """`1 case`, `2 cases`; `more` is the plural where that is not `one` with an s."""
    return f"{number} {one if number == 1 else more or f'{one}s'}"
