"""Weights of targets: accuracy counts each target alike, balanced accuracy each class.

Balanced accuracy is the mean of the accuracies of all classes (Brodersen et al., "The balanced
accuracy and its posterior distribution", ICPR 2010): the accuracy with weights of 1 / the size of
the target's class. Loads numpy for weights alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

BALANCED: Final = "balanced accuracy"
ACCURACY: Final = "accuracy"


def balanced_weights(classes: Sequence[int]) -> bytes:
    """Return weights of 1 / the size of the class, with a mean of 1: packed float64 [targets].

    Args:
        classes: of the targets.
    """
    import numpy as np

    _, positions, sizes = np.unique(
        np.asarray(classes, np.int64), return_inverse=True, return_counts=True
    )
    weights = len(classes) / (len(sizes) * sizes[positions])
    return weights.astype("<f8").tobytes()


def right_share(bits: bytes, targets: int, weights: bytes = b"") -> float:
    """Return the weighted share of targets that are right, in [0, 1], the same on every machine.

    Args:
        bits: packed, first target first (numpy.packbits); those after the targets are 0.
        targets: number of targets.
        weights: packed float64 [targets]; empty if all are equal.
    """
    if not weights:
        return int.from_bytes(bits, "big").bit_count() / targets
    import numpy as np

    known = np.frombuffer(weights, "<f8").astype(np.float64)
    right = np.unpackbits(np.frombuffer(bits, np.uint8), count=targets).astype(bool)
    return math.fsum(known[right].tolist()) / math.fsum(known.tolist())


def effective_number(targets: int, weights: bytes = b"") -> int:
    """Return how many equal targets have the variance of these (Kish, "Survey Sampling", 1965).

    (sum w)^2 / sum w^2, rounded; the number of targets if all weights are equal.
    """
    if not weights:
        return targets
    import numpy as np

    known = np.frombuffer(weights, "<f8").astype(np.float64).tolist()
    squares = math.fsum(weight * weight for weight in known)
    return max(1, round(math.fsum(known) ** 2 / squares))
