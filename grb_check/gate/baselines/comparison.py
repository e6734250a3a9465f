"""What comparing one case, or all of them together, with a baseline said. Builtin types only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Result: TypeAlias = Literal["equal", "pass", "fail", "inconclusive", "incomparable", "new"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The verdict and everything that it rests on.

    Attributes:
        result: `equal`: every target as before; `pass`: no loss beyond the margin, or less than
            could be one; `fail`: a loss is shown; `inconclusive`: the repeats cannot tell;
            `incomparable`: the entry is about something else; `new`: there is no entry.
        text: why, in one sentence for people.
        method: of the test; empty where none was made.
        unit: what was counted, `targets` or `repeats` ...
        n: ... and how many of them the test had.
        before: attacked accuracy of the baseline, in [0, 1].
        after: attacked accuracy of this run.
        loss: `before - after` in accuracy points; positive is worse.
        low: lower end of the one-sided interval of the loss, in points; None of targets that
            changed in some of the repeats or cases alone.
        margin: loss in points that nobody minds.
        statistic: of the test.
        p: probability of a loss like this where none (beyond the margin, for repeats) is.
        alpha: p has to be under it; the share of this test in the error of the whole run.
        repeats_needed: where it is inconclusive: repeats with which a loss like this would show;
            None where it would take very many, or where one repeat tells nothing of the spread.
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
        """Whether it can take the place of another limit: nothing changed, or it was tested."""
        return self.result == "equal" or self.method != ""
