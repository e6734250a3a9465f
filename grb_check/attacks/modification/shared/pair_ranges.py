"""Ranges of pairs of nodes, numbered."""

from __future__ import annotations

import torch
from torch import Tensor


class PairRanges:
    """Pairs of a target with a range of partners, range after range.

    A rank stands for one target and one of its partners, so that a pair of two targets may have two
    ranks, of which only the one with the smaller id as target counts. Ranks that pair a node with
    itself do not count.

    Args:
        targets: int64 [r] on the CPU, the target of each range; a target may have several ranges.
        begin, end: int64 [r], a range of indices into `order`.
        order: int64 [p], distinct nodes.
        is_target: bool [N]. Ranges are symmetric: if one target has another as partner, the other
            has the one.
    """

    def __init__(
        self, targets: Tensor, begin: Tensor, end: Tensor, order: Tensor, is_target: Tensor
    ) -> None:
        self._targets, self._begin, self._order = targets, begin, order
        self._is_target = is_target
        self._last = (end - begin).cumsum(0)  # ranks up to each range, [r]
        self._shift = end - self._last  # from a rank to a place in the order, [r]
        self._ranks = int(self._last[-1]) if self._last.numel() else 0

    def sample(self, count: int, free: int, taken: Tensor, generator: torch.Generator) -> Tensor:
        """Draw `count` of the pairs that count and are not taken, uniformly.

        Args:
            count: at most `free`.
            free: number of such pairs.
            taken: int64 [2, m], pairs that may not be drawn, first < second.
            generator: the source of randomness.

        Returns:
            int64 [2, wanted], first < second, sorted.
        """
        if not count:
            return torch.empty((2, 0), dtype=torch.int64)
        num_nodes = self._is_target.numel()
        taken_codes = taken[0] * num_nodes + taken[1]
        if 2 * count > free or 4 * free < self._ranks:
            # Listing all ranks takes memory in the order of wanted + taken here, because
            # ranks <= 2 * (free + taken + targets); random draws would find few new pairs.
            result = self._new_codes(torch.arange(self._ranks), taken_codes)
        else:
            result = torch.empty(0, dtype=torch.int64)
            while result.numel() < count:
                missing = count - result.numel()
                draws = 64 + int(1.2 * missing * self._ranks / (free - result.numel()))
                ranks = torch.randint(self._ranks, (draws,), generator=generator)
                result = torch.unique(torch.cat([result, self._new_codes(ranks, taken_codes)]))
        chosen = result[torch.randperm(result.numel(), generator=generator)[:count]].sort().values
        return torch.stack([chosen // num_nodes, chosen % num_nodes])

    def _new_codes(self, ranks: Tensor, taken_codes: Tensor) -> Tensor:
        """Return codes first * N + second of the pairs at `ranks` that count and are not taken."""
        which = torch.searchsorted(self._last, ranks, right=True)
        target, partner = self._targets[which], self._order[ranks + self._shift[which]]
        counts = torch.where(self._is_target[partner], target < partner, target != partner)
        ends = torch.stack([target, partner])[:, counts]
        codes = ends.amin(0) * self._is_target.numel() + ends.amax(0)
        return codes[~torch.isin(codes, taken_codes)]
