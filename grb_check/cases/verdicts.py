"""The verdict on a case and its comparison with a baseline, as data. Builtin types only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ComparisonResult: TypeAlias = Literal[
    "equal", "pass", "within", "fail", "inconclusive", "incomparable", "new"
]
VerdictResult: TypeAlias = Literal["pass", "fail", "warn", "measured"]


@dataclass(frozen=True, kw_only=True)
class Collapses:
    """Collapsed trainings of the baseline and of this run.

    Attributes:
        before: number in the baseline.
        after: number in this run.
        n: number of trainings on each side.
        p: of a test of all cases, see `gate.baselines.compare`; None for a single case.
    """

    before: int
    after: int
    n: int
    p: float | None = None


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
            `fail`: a loss beyond the margin is shown; of the rest `within`: the mean loss is not
            beyond it; `inconclusive`: it is, or there are too few trainings for a test;
            `incomparable`: the entry is of another dataset, attack or threat; `new`: there is none.
        text: the reason, in one sentence.
        method: name of the test; empty without a test.
        unit: of the test, `targets` or `repeats`; empty without a test.
        n: number of units.
        before: attacked accuracy of the baseline, in [0, 1].
        after: attacked accuracy of this run.
        loss: `before - after` in accuracy points; positive is worse.
        clean_loss: the part of it that is lost without attack; None if it was not looked at.
        explained: whether a loss beyond the margin is shown, and is one of clean accuracy, for
            which `test_clean` fails: the test is of what is lost to the attack.
        low: lower end of the one-sided interval of the loss that was tested, at level 1 - `alpha`,
            in points; the test of many cases weights them.
        interval: two-sided 95 % interval of that loss; None without a test.
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

    result: ComparisonResult
    text: str
    method: str = ""
    unit: str = ""
    n: int = 0
    before: float | None = None
    after: float | None = None
    loss: float | None = None
    clean_loss: float | None = None
    explained: bool = False
    low: float | None = None
    interval: tuple[float, float] | None = None
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


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a case passed, and the limits that decided.

    Attributes:
        result: "warn": over a threshold that only warns; it passes. "measured": nothing could have
            failed its drop; it passes, too.
        limit: the largest relative drop that passes; None if the baseline replaces it, or if the
            default limit could not fail.
        width: half-width of the interval in the default limit; 0 for an absolute limit.
        alpha: one-sided level of that interval; None for an absolute limit.
        floor: the smallest clean accuracy that passes.
        below_floor: whether it failed for its clean accuracy, whatever the drop.
        rule: the origin of the limit, for reports.
        message: one line that begins with the figures.
        failed_diagnostics: names of the diagnostics that are the only reason for its failure.
        method: of the interval, for reports.
        interval: two-sided 95 % interval of the mean drop; None if unknown.
        borderline: whether an absolute limit lies in it, so that the point estimate decided.
        comparison: with the baseline; None without one.
        inconclusive: whether it failed only because the comparison with the baseline is
            inconclusive.
    """

    result: VerdictResult
    limit: float | None
    width: float
    floor: float
    below_floor: bool
    rule: str
    message: str
    failed_diagnostics: tuple[str, ...] = ()
    method: str = ""
    interval: tuple[float, float] | None = None
    borderline: bool = False
    comparison: Comparison | None = None
    alpha: float | None = None
    inconclusive: bool = False

    @property
    def passed(self) -> bool:
        """Whether the test passes."""
        return self.result != "fail"
