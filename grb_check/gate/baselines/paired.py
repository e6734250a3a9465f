"""The two tests: on targets, for a model that is the same, and on repeats, for a retrained one.

Both are on accuracy in points. No torch; scipy is imported when a test is made.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_REPEATS: Final = 1000  # suggested to users


@dataclass(frozen=True, kw_only=True)
class SignTest:
    """Exact one-sided sign test on targets; McNemar's test if there is one repeat.

    Attributes:
        lost: number of targets that were right in more repeats before than now.
        won: number of targets that are right in more repeats now than before.
        p: probability of at least so many losses if losses and gains are equally likely.
    """

    lost: int
    won: int
    p: float

    def low(self, targets: int, level: float) -> float:
        """Return the lower end of the one-sided interval of the loss, in points.

        Clopper and Pearson's for the share of losses among the changes, given their number.
        """
        from scipy.special import betaincinv

        changes = self.lost + self.won
        if not changes:
            return 0.0
        share = 0.0
        if self.lost:
            share = float(betaincinv(self.lost, self.won + 1, 1.0 - level))
        return 100.0 * (2.0 * share - 1.0) * changes / targets


def sign_test(lost: int, won: int) -> SignTest:
    """Return the test on numbers of targets; without any change p is 1."""
    from scipy.special import betainc

    # P(X >= lost) of Binomial(lost + won, 1/2)
    p = float(betainc(lost, won + 1, 0.5)) if lost else 1.0
    return SignTest(lost=lost, won=won, p=p)


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """One-sided paired t-test on repeats (Student): is the mean loss beyond the margin?

    Attributes:
        mean: of the losses, in points.
        deviation: sample standard deviation of the losses, or a floor of it, see `paired_test`.
        n: number of losses, at least 2.
        margin: in points.
    """

    mean: float
    deviation: float
    n: int
    margin: float

    @property
    def statistic(self) -> float:
        """t of the excess over the margin."""
        return _ratio(self.mean - self.margin, self.deviation / math.sqrt(self.n))

    @property
    def p(self) -> float:
        """Probability of at least this mean loss if the true one is the margin."""
        from scipy.special import stdtr

        if math.isinf(self.statistic):
            return 0.0 if self.statistic > 0 else 1.0
        return float(stdtr(self.n - 1, -self.statistic))

    def low(self, level: float) -> float:
        """Return the lower end of the one-sided interval of the mean loss, in points."""
        return self.mean - _width(self.deviation, self.n, level)

    def high(self, level: float) -> float:
        """Return the upper end of the one-sided interval of the mean loss, in points."""
        return self.mean + _width(self.deviation, self.n, level)

    def repeats_needed(self, alpha: float, level: float) -> int | None:
        """Return the number of repeats that would decide such a mean and deviation.

        The loss is then shown to be beyond the margin at `alpha`, or excluded at `level`; None if
        that needs more than `MAX_REPEATS`.
        """
        gap = abs(self.mean - self.margin)
        level = 1.0 - alpha if self.mean > self.margin else level
        return next(
            (
                n
                for n in range(self.n + 1, MAX_REPEATS + 1)
                if _width(self.deviation, n, level) < gap
            ),
            None,
        )


def paired_test(losses: Sequence[float], margin: float, step: float = 0.0) -> PairedTest:
    """Return the test on the losses of two or more repeats.

    Args:
        losses: of the repeats, in points.
        margin: tolerated loss, in points.
        step: smallest difference between two losses, in points. Accuracies are rounded to whole
            targets, so a few losses may be equal by chance: the deviation is at least that of two
            roundings, step / sqrt(6).
    """
    return PairedTest(
        mean=statistics.fmean(losses),
        deviation=max(statistics.stdev(losses), step / math.sqrt(6.0)),
        n=len(losses),
        margin=margin,
    )


def _width(deviation: float, n: int, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, level)) * deviation / math.sqrt(n)


def _ratio(value: float, scale: float) -> float:
    if scale > 0:
        return value / scale
    return math.copysign(math.inf, value) if value else 0.0
