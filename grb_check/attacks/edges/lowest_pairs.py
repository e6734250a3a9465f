"""Pairs of lowest sum among all that may be added at targets, without listing them all."""

from __future__ import annotations

import torch
from torch import Tensor

from grb_check.attacks.edges.pair_ranges import PairRanges, mask_of


def count_pairs(targets: Tensor, num_nodes: int) -> int:
    """Return the number of pairs with a target end, edges or not; targets [t] are distinct."""
    count = targets.numel()
    return count * (num_nodes - count) + count * (count - 1) // 2


def lowest_pairs(
    scores: Tensor, targets: Tensor, edges: Tensor, wanted: int, generator: torch.Generator
) -> Tensor:
    """Return the non-edges with a target end that have the lowest sums of their ends' scores.

    Args:
        scores: int64 [N], non-negative.
        targets: int64 [t] on the CPU.
        edges: int64 [2, m], all edges with a target end, first < second.
        wanted: number of pairs; fewer are returned if there are fewer.
        generator: breaks ties between pairs of the highest sum.

    Returns:
        int64 [2, a], first < second; those below the highest sum first, each part sorted.
    """
    sums = _Sums(scores, targets, edges)
    wanted = min(wanted, sums.count_upto(sums.highest))
    if not wanted:
        return torch.empty((2, 0), dtype=torch.int64)
    low, high = -1, sums.highest  # the lowest sum with enough pairs is in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sums.count_upto(middle) >= wanted else (middle, high)
    below, upto = sums.count_upto(high - 1), sums.count_upto(high)
    is_target = mask_of(targets, scores.numel())
    start, middles = torch.zeros_like(targets), sums.partners_upto(high - 1)
    inner = PairRanges(targets, start, middles, sums.order, is_target)
    border = PairRanges(targets, middles, sums.partners_upto(high), sums.order, is_target)
    return torch.cat(
        [
            inner.sample(below, below, edges, generator),
            border.sample(wanted - below, upto - below, edges, generator),
        ],
        dim=1,
    )


class _Sums:
    """Numbers of pairs by their sum of scores."""

    def __init__(self, scores: Tensor, targets: Tensor, edges: Tensor) -> None:
        self.order = scores.argsort(stable=True)
        self._sorted = scores[self.order]
        self._of_targets = scores[targets]
        self._sorted_targets = self._of_targets.sort().values
        self._of_edges = scores[edges].sum(0).sort().values
        self.highest = 2 * int(scores.max()) if scores.numel() else -1

    def partners_upto(self, limit: int) -> Tensor:
        """Return how many nodes have a sum up to the limit with each target, int64 [t]."""
        return torch.searchsorted(self._sorted, limit - self._of_targets, right=True)

    def count_upto(self, limit: int) -> int:
        """Return the number of non-edges with a target end and a sum up to the limit."""
        rest = limit - self._of_targets
        pairs = int(self.partners_upto(limit).sum())
        of_targets = int(torch.searchsorted(self._sorted_targets, rest, right=True).sum())
        loops = int((rest >= self._of_targets).sum())
        edges = int(torch.searchsorted(self._of_edges, limit, right=True))
        return pairs - loops - (of_targets - loops) // 2 - edges
