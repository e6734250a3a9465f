"""The tests of a comparison: of the mean loss, with its power, and of every single case at once.

The mean is tested by Student's one-sided t-test. The units are repeats, for a model that is trained
in each, or targets, for a pretrained one. No torch; scipy is imported when a test is made.

The test of every single case keeps one error rate for all of them. The sign flips are those of
whole repeats, so that the correlation between cases is kept, and the largest statistic over the
cases is compared with its own distribution (Westfall and Young 1993, Resampling-Based Multiple
Testing, section 2.6). It is exact if losses are symmetric about the margin. Imports numpy when a
test is made.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]


EXACT: Final = 13  # repeats up to which all sign flips are made
FLIPS: Final = 2**14  # of more repeats, a fixed pseudo-random sample
TIE: Final = 1e-9  # difference of statistics that rounding may make


class MaxTest(NamedTuple):
    """The result for one case.

    Attributes:
        low: lower end of the simultaneous one-sided interval of the mean loss, in points.
        p: adjusted for all cases; the null hypothesis is a loss of the margin in every case.
    """

    low: float
    p: float


def max_test(losses: Floats, margin: float, steps: Floats, alpha: float) -> list[MaxTest]:
    """Return the result for each case.

    Args:
        losses: in points, float64 [repeats, cases], two or more repeats.
        margin: tolerated loss, in points.
        steps: accuracy of one target in each case, in points, float64 [cases]: losses are rounded
            to it, which is at least the variance of two roundings, step^2 / 6.
        alpha: family-wise error rate.
    """
    import numpy as np

    n, excess = len(losses), losses - margin
    squares = (excess**2).sum(axis=0) + n * steps**2 / 6.0
    flipped = sign_flips(n) @ excess / np.sqrt(squares)  # grows with Student's t of the flips
    largest = flipped.max(axis=1)
    p = (largest[:, None] >= flipped[0] - TIE * (1.0 + abs(flipped[0]))).mean(axis=0)
    limit = _critical(largest, alpha)
    mean = excess.mean(axis=0)
    deviation = np.sqrt(np.maximum(squares / n - mean**2, 0.0) / (n - 1))
    t = limit * math.sqrt(n - 1) / math.sqrt(n - limit**2) if limit**2 < n else math.inf
    lows = margin + mean - t * deviation
    return [MaxTest(*map(float, values)) for values in zip(lows, p, strict=True)]


def sign_flips(n: int) -> Floats:
    """Return signs of n repeats, float64 [flips, n]; the first flip changes nothing.

    Up to `EXACT` repeats all 2^n of them, beyond a sample that depends on n alone.
    """
    import numpy as np

    if n <= EXACT:
        flipped = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    else:
        width = (n + 7) // 8
        drawn = hashlib.shake_256(f"sign flips of {n} repeats".encode()).digest(FLIPS * width)
        rows = np.frombuffer(drawn, np.uint8).reshape(FLIPS, width)
        flipped = np.unpackbits(rows, axis=1, count=n) == 1
        flipped[0] = False
    signs: Floats = np.where(flipped, -1.0, 1.0)
    return signs


def _critical(largest: Floats, alpha: float) -> float:
    """The largest statistic that is not significant."""
    import numpy as np

    ordered = np.sort(largest)[::-1]
    allowed = int(alpha * len(ordered) + TIE)  # statistics that may be at least as large
    return float(ordered[min(allowed, len(ordered) - 1)])


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
