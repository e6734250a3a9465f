"""Whole numbers that users write, within a range."""

from __future__ import annotations

import re


def whole_number(given: object, least: int, most: int) -> int | None:
    """Return an integer, given as a number or as decimal ASCII digits; None if it is not in range.

    Args:
        given: by the user; True is no number.
        least: the smallest that is allowed, not negative.
        most: the largest that is allowed.
    """
    text = "" if isinstance(given, bool) else str(given).strip()
    number = int(text) if re.fullmatch("[0-9]{1,18}", text) else -1
    return number if least <= number <= most else None
