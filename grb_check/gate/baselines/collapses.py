"""Repeats that collapsed, far below all others of their case."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from grb_check.cases.verdicts import Collapses

FAR: Final = 10.0  # points below the median, at least
DEVIATIONS: Final = 6.0  # robust standard deviations below the median, at least
FAR_STEPS: Final = 3.0  # targets below the median, at least
MIN_REPEATS: Final = 8  # for a median and a spread that one repeat does not decide
NORMAL: Final = 1.4826  # standard deviations in a median absolute deviation, of normal values


def collapsed(accuracies: Sequence[float], step: float) -> frozenset[int]:
    """Return the repeats whose accuracy is far below the median.

    That is by `FAR` points, by `DEVIATIONS` standard deviations, estimated from the median absolute
    deviation, and by `FAR_STEPS` targets. With fewer than `MIN_REPEATS` repeats none is.

    Args:
        accuracies: of the repeats, in points.
        step: the accuracy of one target, in points.
    """
    if len(accuracies) < MIN_REPEATS:
        return frozenset()
    middle = statistics.median(accuracies)
    spread = NORMAL * statistics.median(abs(accuracy - middle) for accuracy in accuracies)
    least = round(middle - max(FAR, DEVIATIONS * spread, FAR_STEPS * step), 9)
    return frozenset(
        repeat for repeat, accuracy in enumerate(accuracies) if round(accuracy, 9) < least
    )


def more_frequent(collapses: Collapses) -> float:
    """Return the p-value of more collapses than before, by Boschloo's exact one-sided test; else 1.

    It is more powerful than Fisher's (Boschloo 1970): 5 of 20 after none of 20 have p = 0.009, by
    Fisher's test 0.024.
    """
    if collapses.after <= collapses.before:
        return 1.0
    from scipy.stats import boschloo_exact  # takes a second, which only collapses cost

    table = [
        [collapses.after, collapses.n - collapses.after],
        [collapses.before, collapses.n - collapses.before],
    ]
    return round(float(boschloo_exact(table, alternative="greater").pvalue), 6)
