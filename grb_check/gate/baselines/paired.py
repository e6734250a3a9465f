"""The two tests: of targets, for a model that is the same, and of repeats, for one retrained.

Both are of accuracy in points. No torch; numpy and scipy are loaded when a test is made.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST_REPEATS: Final = 1000  # beyond which nobody would go to settle a case


@dataclass(frozen=True, kw_only=True)
class SignTest:
    """Exact one-sided sign test on targets, McNemar's where there is one repeat.

    Attributes:
        lost: targets that were right and are wrong (in more repeats than the other way round) ...
        won: ... and the other way round.
        p: probability of so many losses, if each change could as well have been a gain.
    """

    lost: int
    won: int
    p: float

    def low(self, targets: int, level: float) -> float:
        """Lower end of the one-sided interval of the loss, in points.

        Clopper and Pearson's for the share of losses among the changes, whose number is taken as
        given.
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
    """Of numbers of targets; without any change p is 1."""
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
        """Probability of a mean loss like this, if the true one is the margin."""
        from scipy.special import stdtr

        if math.isinf(self.statistic):
            return 0.0 if self.statistic > 0 else 1.0
        return float(stdtr(self.n - 1, -self.statistic))

    def low(self, level: float) -> float:
        """Lower end of the one-sided interval of the mean loss at this confidence, in points."""
        return self.mean - _width(self.deviation, self.n, level)

    def high(self, level: float) -> float:
        """Upper end of the other one-sided interval."""
        return self.mean + _width(self.deviation, self.n, level)

    def repeats_needed(self, alpha: float, level: float) -> int | None:
        """With how many repeats a mean and a deviation like these would settle it.

        That is the loss shown to be beyond the margin at `alpha`, or excluded at `level`; None
        where more than `MOST_REPEATS` would be needed.
        """
        gap = abs(self.mean - self.margin)
        level = 1.0 - alpha if self.mean > self.margin else level
        return next(
            (n for n in _more(self.n) if _width(self.deviation, n, level) < gap),
            None,
        )


def paired_test(losses: Sequence[float], margin: float, step: float = 0.0) -> PairedTest:
    """Of the losses of two or more repeats, in points.

    Args:
        losses: of the repeats.
        margin: that nobody minds.
        step: by which a loss can differ from another. Accuracies are rounded to whole targets, so
            that a few losses may be alike by chance: the deviation is at least that of two
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


def _more(n: int) -> range:
    return range(n + 1, MOST_REPEATS + 1)
