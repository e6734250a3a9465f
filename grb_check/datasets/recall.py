"""Recall of one class at a rate of false alarms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Recall:
    """The share of a class that is found where a share of the other nodes is taken for it.

    The threshold of each model is that at which so many of the *clean validation* nodes of other
    classes are false alarms, see `evaluation.thresholds`.

    Attributes:
        positive: the class.
        false_alarms: share of the other validation nodes, in (0, 1).
    """

    positive: int
    false_alarms: float

    @property
    def text(self) -> str:
        """What figures are of, for reports."""
        return f"recall of class {self.positive} at {100 * self.false_alarms:g} % false alarms"

    def scores(self, logits: Tensor) -> Tensor:
        """Return the logit of the class minus the largest of the others: float [n] of [n, c]."""
        others = logits.clone()
        others[:, self.positive] = -torch.inf
        return logits[:, self.positive] - others.amax(1)

    def allowed(self, negatives: int) -> int:
        """Return how many of so many nodes of other classes may be false alarms."""
        return math.floor(self.false_alarms * negatives + 1e-9)


def average_precision(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Return the average precision of scores of nodes of the class, [p], and of others, [n].

    It is that of scikit-learn's `average_precision_score`: the precision at each different score,
    weighted by how much recall it adds.
    """
    levels, added = np.unique(positive, return_counts=True)
    above = positive.size - np.searchsorted(np.sort(positive), levels, side="left")
    alarms = negative.size - np.searchsorted(np.sort(negative), levels, side="left")
    return float((added / positive.size * above / (above + alarms)).sum())
