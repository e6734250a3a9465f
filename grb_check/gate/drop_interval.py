"""The interval of a drop over its repeats."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from grb_check.cases.outcomes import Scores
from grb_check.gate.default_limit import drop_variance

INTERVAL: Final = 0.95  # two-sided, for the mean drop
ONE_REPEAT_SCALE: Final = 2.4  # variance between trainings, in binomial variances of the drop
ONE_REPEAT_FREEDOM: Final = 4.0


def drop_interval(sides: Sequence[Scores], targets: int) -> tuple[tuple[float, float], str]:
    """Return the two-sided 95 % interval of the mean drop, and its method.

    Student's t over the repeats. One repeat shows no spread: its standard deviation is taken from
    the binomial variance over the targets, times `ONE_REPEAT_SCALE`, and as known with
    `ONE_REPEAT_FREEDOM` degrees of freedom, since trainings differ by more than their targets. Such
    an interval covered the mean of all trainings in 92 to 95 % of cases
    (docs/explanation/gate.md).

    Args:
        sides: scores of the model in each repeat.
        targets: number of targets.
    """
    from scipy.special import stdtrit

    drops = [side.drop for side in sides]
    count, tail = len(drops), (1.0 - INTERVAL) / 2
    if count > 1:
        freedom, method = count - 1.0, f"Student's t over {count} repeats"
        variance = statistics.variance(drops)
    else:
        freedom, method = ONE_REPEAT_FREEDOM, "a typical spread between trainings, for one repeat"
        variance = ONE_REPEAT_SCALE * drop_variance(sides[0].clean, sides[0].attacked, targets)
    mean = statistics.fmean(drops)
    width = float(stdtrit(freedom, 1.0 - tail)) * math.sqrt(variance / count)
    return (mean - width, min(mean + width, 1.0)), method
