r"""The test whether flips keep the distribution of degrees, as Nettack's perturbations do."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.removable import degrees_of

LEAST: Final = 2  # degree from which on a power law is assumed
LIMIT: Final = 0.004  # of the test statistic, a p-value of 0.95 with one degree of freedom


class DegreeTest:
    r"""Likelihood ratio of one power law for the degrees before and after, against two.

    `Adversarial Attacks on Neural Networks for Graph Data <https://arxiv.org/abs/1805.07984>`_
    (Zügner et al. 2018, section 4.1): for n degrees :math:`d \ge 2` with :math:`S = \sum \log d`,

    .. math:: \alpha = 1 + \frac{n}{S - n \log 1.5}, \qquad
        l = n \log \alpha + n \alpha \log 2 - (\alpha + 1) S,

    and changes pass if :math:`2 (l_{before} + l_{after} - l_{both}) < 0.004`.

    Args:
        graph: clean graph.
    """

    def __init__(self, graph: Data) -> None:
        self._count, self._total = _sums(degrees_of(graph).double())

    def passes(self, degrees: Tensor, target: int, is_near: Tensor) -> Tensor:
        """Return which pairs of the target with another node pass after their flip, bool [N].

        Args:
            degrees: float [N], of the graph as it is.
            target: one end of all pairs.
            is_near: bool [N], which pairs are edges, and would be removed.
        """
        degrees = degrees.double()
        count, total = _sums(degrees)
        change = torch.where(is_near, -1.0, 1.0).double()
        for before in (degrees[target], degrees):
            after = before + change
            count = count + (after >= LEAST).double() - (before >= LEAST).double()
            total = total + _log(after) - _log(before)
        both = _likelihood(count + self._count, total + self._total)
        apart = _likelihood(count, total) + _likelihood(self._count, self._total)
        statistic: Tensor = 2 * (apart - both)
        return statistic < LIMIT


def _sums(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of degrees [N] that count, and the sum of their logarithms."""
    return (degrees >= LEAST).sum().double(), _log(degrees).sum()


def _log(degrees: Tensor) -> Tensor:
    """Return the logarithm of the degrees that count, 0 for all others."""
    return torch.where(degrees >= LEAST, degrees.clamp(min=1), 1.0).log()


def _likelihood(count: Tensor, total: Tensor) -> Tensor:
    """Return the log-likelihood of the best power law; 0 if no degree counts."""
    least = torch.tensor(float(LEAST), dtype=torch.float64)
    alpha = 1 + count / (total - count * (least - 0.5).log()).clamp(min=1e-12)
    return count * alpha.log() + count * alpha * least.log() - (alpha + 1) * total
