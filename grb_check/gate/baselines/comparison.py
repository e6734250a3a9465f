"""The result of comparing one case, or all cases jointly, with a baseline. Builtin types only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from grb_check.gate.baselines.collapses import Collapses

Result: TypeAlias = Literal["equal", "pass", "fail", "inconclusive", "incomparable", "new"]


@dataclass(frozen=True, kw_only=True)
class CaseLoss:
    """A single case that loses more than the margin, by the test at the end of the run.

    Attributes:
        case: its id.
        loss: mean loss of attacked accuracy, in points.
        low: lower end of the simultaneous one-sided interval of the loss, in points.
        p: adjusted for the number of cases.
    """

    case: str
    loss: float
    low: float
    p: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a comparison and the figures that it is based on.

    Attributes:
        result: `equal`: every target has the same result; `pass`: no loss beyond the margin;
            `fail`: a loss beyond the margin is shown; `inconclusive`: neither is shown;
            `incomparable`: the entry is of another dataset, attack or threat; `new`: there is none.
        text: the reason, in one sentence.
        method: name of the test; empty without a test.
        unit: of the test, `targets` or `repeats`; empty without a test.
        n: number of units.
        before: attacked accuracy of the baseline, in [0, 1].
        after: attacked accuracy of this run.
        loss: `before - after` in accuracy points; positive is worse.
        low: lower end of the one-sided interval of the loss at level 1 - `alpha`, in points.
        margin: tolerated loss of accuracy, in percentage points.
        deviation: standard deviation of the losses of the units, in points.
        statistic: of the test.
        p: p-value; the null hypothesis is no loss beyond the margin.
        alpha: significance level of the test, its share of the family-wise error rate.
        detectable: the smallest true loss that such a run detects with 80 % probability, in points;
            None if it detects none.
        repeats_needed: if inconclusive, the number of repeats that would decide with 80 %
            probability; None if that is unknown or above `mean_test.MAX_REPEATS`.
        collapses: trainings that collapsed; None without any.
        cases: of a joint comparison: single cases that lose more than the margin.
    """

    result: Result
    text: str
    method: str = ""
    unit: str = ""
    n: int = 0
    before: float | None = None
    after: float | None = None
    loss: float | None = None
    low: float | None = None
    margin: float = 0.0
    deviation: float | None = None
    statistic: float | None = None
    p: float | None = None
    alpha: float | None = None
    detectable: float | None = None
    repeats_needed: int | None = None
    collapses: Collapses | None = None
    cases: tuple[CaseLoss, ...] = ()

    @property
    def judges(self) -> bool:
        """Whether it replaces the default limit: nothing has changed, or a test was made."""
        return self.result == "equal" or self.method != ""
