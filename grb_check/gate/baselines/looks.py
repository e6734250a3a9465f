"""Looks at a comparison that may go on: after how many repeats, and at which share of its error.

A case whose comparison with a base is in doubt gets further repeats on both sides. Each look at it
may err, so that all of them share its error rate, by the spending function of Lan and DeMets
("Discrete sequential boundaries for clinical trials", Biometrika 70, 1983) that resembles Pocock's
boundary,

    alpha(t) = alpha ln(1 + (e - 1) t),    t = repeats of the look / repeats of the last one.

A look tests at what is spent since the one before. Together they err no more often than alpha by
the union bound, whatever their dependence is and whenever they end; the exact boundary for normal
increments, which would spend a little more at the later looks, is not used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.verdicts import Comparison, ComparisonResult

MOST: Final = 20  # repeats on both sides
GROWTH: Final = 1.6  # from one look to the next
# Results that further repeats may decide: of a case, and of all cases, which cost as much again.
OF_A_CASE: Final[tuple[ComparisonResult, ...]] = ("inconclusive",)
OF_ALL_CASES: Final[tuple[ComparisonResult, ...]] = ("inconclusive", "within")

ONLY: Final = 1.0  # share of a comparison that cannot go on


@dataclass(frozen=True)
class Look:
    """A look at the losses of the first repeats.

    Attributes:
        repeats: number of them.
        share: of the error rate, in (0, 1].
    """

    repeats: int
    share: float


def looks(first: int, most: int = MOST) -> tuple[Look, ...]:
    """Return the looks of a comparison, whose shares add up to 1.

    Args:
        first: repeats of the first look, at least 1.
        most: repeats of the last; with as many at first there is one look.
    """
    numbers = [first]
    while numbers[-1] < most:
        numbers.append(min(max(numbers[-1] + 1, round(GROWTH * numbers[-1])), most))
    spent = [0.0, *(math.log1p((math.e - 1.0) * n / numbers[-1]) for n in numbers)]
    shares = (after - before for before, after in itertools.pairwise(spent))
    return tuple(map(Look, numbers, shares))


def in_doubt(comparison: Comparison, doubts: Collection[ComparisonResult]) -> bool:
    """Return whether further repeats may decide a comparison: a test of repeats that has not.

    Args:
        comparison: at a look.
        doubts: results that are to be decided.
    """
    return comparison.result in doubts and comparison.unit == "repeats" and comparison.method != ""


def decided(
    compare: Callable[[Look], Comparison],
    possible: Sequence[Look],
    doubts: Collection[ComparisonResult],
) -> Comparison:
    """Look until a comparison is no longer in doubt, or to the last look.

    Args:
        compare: measures what a look needs, and compares.
        possible: looks, at least one.
        doubts: see `in_doubt`.
    """
    for look in possible:
        comparison = compare(look)
        if not in_doubt(comparison, doubts):
            break
    return comparison
