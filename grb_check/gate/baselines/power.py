"""Number of repeats that detects a loss, from the figures of one run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.cases.outcomes import Outcome
from grb_check.gate.baselines.baseline import ALPHA, JOINT_SHARE
from grb_check.gate.baselines.collapses import collapsed
from grb_check.gate.baselines.compare import CASES_SHARE, case_weights
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


def trained(outcomes: Sequence[Outcome]) -> bool:
    """Whether every repeat has a training of its own, so that more repeats show more."""
    repeats = outcomes[0].repeats
    known = [each.weights for each in repeats if each.weights]
    return not repeats[0].pretrained and len(set(known)) == len(known)


def needed(
    outcomes: Sequence[Outcome], loss: float, margin: float, groups: int, cases: int
) -> list[Needed]:
    """Return the repeats for a loss in all cases of a model and dataset, then in each one alone.

    The deviation is that of two independent runs, sqrt(2) times that of one. It is a little too
    large if both have the same perturbations. A single case is judged by its own verdict; the
    test at the end of a run usually needs fewer repeats.

    Args:
        outcomes: of the cases of one model and dataset, with three or more repeats each.
        loss: true loss of attacked accuracy, in points.
        margin: that is tolerated, in points, less than `loss`.
        groups: number of models and datasets of the run, which share the error rate.
        cases: number of cases of the run, likewise.
    """
    n = min(len(each.repeats) for each in outcomes)
    by_case = [[100.0 * r.victim.attacked for r in each.repeats[:n]] for each in outcomes]
    steps = [100.0 / each.targets for each in outcomes]
    means = [statistics.fmean(each) for each in zip(*by_case, strict=True)]
    gone = collapsed(means, max(steps) / len(steps))
    sides = [
        [math.sqrt(2.0) * value for repeat, value in enumerate(each) if repeat not in gone]
        for each in by_case
    ]
    weights = case_weights(sides)
    joint = [
        sum(value * weight for value, weight in zip(each, weights, strict=True)) / sum(weights)
        for each in zip(*sides, strict=True)
    ]
    together = 1.0 - ALPHA * JOINT_SHARE / groups * (1.0 - CASES_SHARE)
    alone = 1.0 - ALPHA * (1.0 - JOINT_SHARE) / cases
    found = [_needed(ALL_CASES, joint, min(steps) / len(steps), loss - margin, together)]
    return found + [
        _needed(each.case.id, side, step, loss - margin, alone)
        for each, side, step in zip(outcomes, sides, steps, strict=True)
    ]


def _needed(name: str, side: Sequence[float], step: float, gap: float, level: float) -> Needed:
    deviation = max(statistics.stdev(side), step / math.sqrt(6.0))
    return Needed(name=name, deviation=deviation, repeats=repeats_for(gap, deviation, level))
