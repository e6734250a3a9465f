"""Whole numbers that users write, such as the number of repeats."""

from __future__ import annotations

import re
import reprlib
from typing import Final

from grb_check.errors import UsageError

MOST_REPEATS: Final = 10_000


def whole_number(given: object, least: int, most: int) -> int | None:
    """Return an integer, given as a number or as decimal ASCII digits; None if it is not in range.

    Args:
        given: by the user; True is not a number.
        least: the smallest that is allowed, not negative.
        most: the largest that is allowed.
    """
    text = "" if isinstance(given, bool) else str(given).strip()
    number = int(text) if re.fullmatch("[0-9]{1,18}", text) else -1
    return number if least <= number <= most else None


def check_repeats(name: str, value: object) -> int:
    """Return a number of repeats, given as number or text.

    Raises:
        UsageError: it is not an integer from 1 to `MOST_REPEATS`.
    """
    repeats = whole_number(value, 1, MOST_REPEATS)
    if repeats is None:
        raise UsageError(
            f"{name}: {reprlib.repr(value)} is not a number of repeats; give a whole number from 1 "
            f"to {MOST_REPEATS:,}"
        )
    return repeats
