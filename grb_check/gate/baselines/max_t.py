"""The max-T test: every single case at once, by flips of signs."""

from __future__ import annotations

import hashlib
import math
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
