"""The test of a mean loss, with its power."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]


MAX_REPEATS: Final = 1000  # suggested to users
POWER: Final = 0.8  # probability of the detections that are reported (Cohen 1988)


@dataclass(frozen=True, kw_only=True)
class MeanTest:
    """Is the mean loss beyond the margin?

    Attributes:
        mean: of the losses, in points.
        deviation: sample standard deviation of the losses, or a floor of it, see `mean_test`.
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
        return self.mean - critical(self.n, level) * self.deviation / math.sqrt(self.n)

    def high(self, level: float) -> float:
        """Return the upper end of the one-sided interval of the mean loss, in points."""
        return self.mean + critical(self.n, level) * self.deviation / math.sqrt(self.n)

    def detectable(self, level: float) -> float:
        """Return the smallest true loss that is shown in 80 % of such runs, in points.

        Args:
            level: of the one-sided interval whose lower end must be beyond the margin.
        """
        return self.margin + _ncp(self.n, level) * self.deviation / math.sqrt(self.n)

    def repeats_needed(self, shown: float, excluded: float) -> int | None:
        """Return the number of repeats that decides with 80 % probability, whichever way.

        A new run of so many repeats then shows a loss beyond the margin, or excludes one. Its mean
        is predicted from this run, whose own mean is uncertain too: the difference of both over
        its standard deviation has Student's t distribution.

        Args:
            shown: level of the interval that shows a loss.
            excluded: level of the interval that excludes one.

        Returns:
            None if it is more than `MAX_REPEATS`.
        """
        return _first(lambda n: self._decided(n, shown, excluded) >= POWER)

    def _decided(self, n: int, shown: float, excluded: float) -> float:
        from scipy.special import stdtr

        if self.deviation == 0.0:
            return float(self.mean != self.margin)
        gap, scale = (self.mean - self.margin) / self.deviation, math.sqrt(1 / self.n + 1 / n)
        beyond = (gap - critical(n, shown) / math.sqrt(n)) / scale
        within = (-gap - critical(n, excluded) / math.sqrt(n)) / scale
        return float(stdtr(self.n - 1, beyond) + stdtr(self.n - 1, within))


def mean_test(losses: Sequence[float], margin: float, floor: float = 0.0) -> MeanTest:
    """Return the test on two or more losses.

    Args:
        losses: in points.
        margin: tolerated loss, in points.
        floor: of the standard deviation, in points: a few losses may be equal by chance.
    """
    return MeanTest(
        mean=statistics.fmean(losses),
        deviation=max(statistics.stdev(losses), floor),
        n=len(losses),
        margin=margin,
    )


def critical(n: int, level: float) -> float:
    """Return the quantile of Student's t for n values."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, level))


def _first(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of repeats that is enough; all larger ones are too."""
    counts = range(2, MAX_REPEATS + 1)
    result = bisect_left(counts, True, key=enough)
    return counts[result] if result < len(counts) else None


def _ncp(n: int, level: float) -> float:
    """The noncentrality for which t of n values exceeds its critical value in 80 % of runs."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(n - 1, 1.0 - POWER, critical(n, level)))


def _ratio(value: float, scale: float) -> float:
    if scale > 0:
        return value / scale
    return math.copysign(math.inf, value) if value else 0.0
