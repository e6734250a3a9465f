"""Thresholds of the user's, by patterns of case ids."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grb_check.cases.case import Case
from grb_check.errors import UsageError


@dataclass(frozen=True)
class Threshold:
    """The largest relative drop that passes in cases that match `pattern`.

    A larger one fails the case or, with `warn`, is only reported.
    """

    pattern: str
    limit: float
    warn: bool = False


def parse_fraction(text: str, name: str) -> float:
    """Read a fraction such as `0.2` or `20%`.

    Raises:
        UsageError: it is not a number from 0 to 1.
    """
    body, percent = text.strip(), 1.0
    if body.endswith("%"):
        body, percent = body[:-1], 100.0
    try:
        value = float(body) / percent
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise UsageError(
            f"{name}: {reprlib.repr(text)} is not a fraction; give a number from 0 to 1, such as "
            f"0.2 or 20%"
        )
    return value


def parse_threshold(line: str) -> Threshold:
    """Read `dataset/difficulty/scenario/attack = value [warn]`, with wildcards on the left.

    Raises:
        UsageError: no `=`, nothing on the left, or no fraction on the right.
    """
    pattern, separator, value = line.rpartition("=")
    if not separator or not pattern.strip() or not value.strip():
        raise UsageError(
            f"threshold {line!r} must have the form 'pattern = value', "
            f"such as 'grb-cora/*/injection/* = 0.3'"
        )
    number, *words = value.split()
    if words not in ([], ["warn"]):
        raise UsageError(
            f"threshold {line!r}: after the fraction only 'warn' may stand, not "
            f"{' '.join(words)!r}; leave that out"
        )
    return Threshold(pattern.strip(), parse_fraction(number, f"threshold {line!r}"), bool(words))


def check_patterns(what: str, patterns: Iterable[str], known: Sequence[Case]) -> None:
    """Refuse a pattern that can never apply.

    Args:
        what: name of the patterns in the message.
        patterns: of case ids.
        known: every case that a run can name.

    Raises:
        UsageError: a pattern matches none of the known cases.
    """
    for pattern in patterns:
        if not any(case.matches(pattern) for case in known):
            raise UsageError(
                f"{what} pattern {pattern!r} matches no known case; ids look like "
                f"{known[0].id!r}: dataset/difficulty/scenario/attack"
            )
