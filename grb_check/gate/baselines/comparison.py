"""The result of comparing one case, or all cases jointly, with a baseline. Builtin types only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Result: TypeAlias = Literal["equal", "pass", "fail", "inconclusive", "incomparable", "new"]


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
        low: lower end of the one-sided interval of the loss, in points; None if unknown, as for
            targets that changed in only some of the repeats or cases.
        margin: tolerated loss of accuracy, in percentage points.
        statistic: of the test.
        p: p-value; the null hypothesis is no loss, or on repeats no loss beyond the margin.
        alpha: significance level of the test, its share of the family-wise error rate.
        repeats_needed: if inconclusive, the number of repeats that would decide such a loss; None
            if that is unknown or above `paired.MAX_REPEATS`.
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
    statistic: float | None = None
    p: float | None = None
    alpha: float | None = None
    repeats_needed: int | None = None

    @property
    def judges(self) -> bool:
        """Whether it replaces the default limit: nothing has changed, or a test was made."""
        return self.result == "equal" or self.method != ""
