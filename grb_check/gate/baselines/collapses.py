"""Trainings that collapsed: repeats whose accuracy is far below the median of their side.

A collapse says little about the other trainings, and a few of them hide any loss: with one training
in ten at half its accuracy, more repeats would see less. So they are counted and compared by
themselves, and the other repeats are tested without them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FAR: Final = 10.0  # points below the median, at least
DEVIATIONS: Final = 6.0  # robust standard deviations below the median, at least
MIN_REPEATS: Final = 8  # for a median and a spread that one repeat does not decide
NORMAL: Final = 1.4826  # standard deviations in a median absolute deviation, of normal values


@dataclass(frozen=True, kw_only=True)
class Collapses:
    """Collapsed trainings of the baseline and of this run.

    Attributes:
        before: number in the baseline.
        after: number in this run.
        n: number of trainings on each side.
        p: of Fisher's exact one-sided test: the probability of at least so many in this run, given
            the sum, if they are equally frequent.
    """

    before: int
    after: int
    n: int
    p: float


def collapsed(accuracies: Sequence[float]) -> frozenset[int]:
    """Return the repeats whose accuracy, in points, is far below the median.

    That is by `FAR` points and by `DEVIATIONS` standard deviations, estimated from the median
    absolute deviation. With fewer than `MIN_REPEATS` repeats none is.
    """
    if len(accuracies) < MIN_REPEATS:
        return frozenset()
    middle = statistics.median(accuracies)
    spread = NORMAL * statistics.median(abs(each - middle) for each in accuracies)
    least = round(middle - max(FAR, DEVIATIONS * spread), 9)
    return frozenset(repeat for repeat, each in enumerate(accuracies) if round(each, 9) < least)


def compare_collapses(before: int, after: int, n: int) -> Collapses:
    """Compare the numbers of collapses among n trainings on each side, by Fisher's exact test."""
    total = before + after
    ways = sum(math.comb(n, k) * math.comb(n, total - k) for k in range(after, min(total, n) + 1))
    return Collapses(before=before, after=after, n=n, p=ways / math.comb(2 * n, total))
