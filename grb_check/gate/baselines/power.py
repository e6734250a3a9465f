"""How many repeats it takes to detect a loss, from the figures of one run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.cases.outcomes import Outcome
from grb_check.gate.baselines.baseline import ALPHA, JOINT_SHARE
from grb_check.gate.baselines.collapses import collapsed
from grb_check.gate.baselines.compare import CASES_SHARE, COLLAPSES_SHARE, case_weights
from grb_check.gate.baselines.mean_test import repeats_for

ALL_CASES = "all cases together"


@dataclass(frozen=True, kw_only=True)
class Needed:
    """Repeats that detect a loss with 80 % probability.

    Attributes:
        name: id of the case, or `ALL_CASES`.
        deviation: standard deviation of the loss between two trainings, in points.
        repeats: on both sides; None if it is more than `mean_test.MAX_REPEATS`.
    """

    name: str
    deviation: float
    repeats: int | None


def needed(outcomes: Sequence[Outcome], loss: float, margin: float, groups: int) -> list[Needed]:
    """Return the repeats for a loss in all cases of a model and dataset, then in each one alone.

    The deviation is that of two independent runs, sqrt(2) times that of one. It is a little too
    large if both have the same perturbations. For a single case Bonferroni's bound is used, which
    the test at the end of a run is never worse than.

    Args:
        outcomes: of the cases of one model and dataset, with three or more repeats each.
        loss: true loss of attacked accuracy, in points.
        margin: that is tolerated, in points, less than `loss`.
        groups: number of models and datasets of the run, which share the error rate.
    """
    n = min(len(each.repeats) for each in outcomes)
    by_case = [[100.0 * r.victim.attacked for r in each.repeats[:n]] for each in outcomes]
    gone = collapsed([statistics.fmean(each) for each in zip(*by_case, strict=True)])
    sides = [
        [math.sqrt(2.0) * value for repeat, value in enumerate(each) if repeat not in gone]
        for each in by_case
    ]
    weights = case_weights(sides)
    joint = [
        sum(value * weight for value, weight in zip(each, weights, strict=True)) / sum(weights)
        for each in zip(*sides, strict=True)
    ]
    rate = ALPHA * JOINT_SHARE / groups
    together = 1.0 - rate * (1.0 - CASES_SHARE - COLLAPSES_SHARE)
    alone = 1.0 - rate * CASES_SHARE / len(outcomes)
    levels = [(ALL_CASES, joint, together)]
    levels += [(each.case.id, side, alone) for each, side in zip(outcomes, sides, strict=True)]
    return [
        Needed(
            name=name,
            deviation=(deviation := statistics.stdev(side)),
            repeats=repeats_for(loss - margin, deviation, level),
        )
        for name, side, level in levels
    ]
