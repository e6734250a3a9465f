"""The flips of largest gain among all pairs of nodes, scanned in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.protocol import PairGradients

_Change = Callable[[Tensor], Tensor]
BLOCK: Final = 2**21  # pairs in a block, 8 MiB of float32
GPU_BLOCK: Final = 2**25  # each block waits for the one before
FIRST: Final = 2**17  # a small first block, whose best gains bound the rest


@dataclass(frozen=True, eq=False)
class RankedFlips:
    """Flips by descending gain.

    Attributes:
        codes: int64 [k].
        gains: float [k], the first-order gain of the objective by each flip.
    """

    codes: Tensor
    gains: Tensor


def best_flips(
    gradients: PairGradients,
    edges: EdgeSet,
    rows: Tensor,
    forbidden: Tensor,
    count: int,
    nodes: Tensor | None = None,
) -> RankedFlips:
    """Return the `count` pairs with an end in `rows` whose flip raises the objective most.

    The gain of adding a pair is its gradient, that of removing an edge minus its gradient. The
    result is that of the dense N x N gradient, in the memory of a few blocks. Rows are sorted by
    the size of their gradient, so that pairs which cannot reach the best found so far are skipped
    by the bound :math:`|v_i||u_j| + |v_j||u_i| + |t_i + t_j|`.

    Args:
        gradients: of the graph with these edges.
        edges: of the current graph.
        rows: int64 [m], distinct nodes.
        forbidden: int64 [f], codes of pairs that may not be flipped.
        count: number of pairs; fewer are returned if there are fewer.
        nodes: bool [N], the nodes that both ends must be among; None for all.
    """
    rows = rows if nodes is None else rows[nodes[rows]]
    if count <= 0 or not rows.numel():
        return RankedFlips(rows.new_empty(0), gradients.degrees.new_empty(0))
    scan = _Scan(gradients, edges, rows, forbidden, nodes)
    codes, gains = rows.new_empty(0), gradients.degrees.new_empty(0)
    block = BLOCK if rows.device.type == "cpu" else GPU_BLOCK
    start, size, result, pending = 0, FIRST, [(codes, gains)], 0
    while start < rows.numel():
        size = max(1, min(size // scan.num_columns, rows.numel() - start))
        lowest = float(gains[-1]) if gains.numel() == count else -math.inf
        result.append(scan.above(start, size, lowest, count))
        pending += result[-1][0].numel()
        start, size = start + size, block
        if pending >= count or start == rows.numel():  # merge rarely: each merge sorts everything
            every, values = (torch.cat(parts) for parts in zip(*result, strict=True))
            gains, order = values.topk(min(count, values.numel()))
            codes = every[order]
            result, pending = [(codes, gains)], 0
    return RankedFlips(codes, gains)


class _Scan:
    """Blocks of the matrix of gains; each pair appears in the row of the end that comes first."""

    def __init__(
        self,
        gradients: PairGradients,
        edges: EdgeSet,
        rows: Tensor,
        forbidden: Tensor,
        nodes: Tensor | None,
    ) -> None:
        self._gradients, self._edges = gradients, edges
        num_nodes = edges.num_nodes
        self._sent = gradients.inputs.norm(dim=1)
        self._received = gradients.outputs.norm(dim=1)
        first = self._received.new_zeros(num_nodes)
        first[rows] = 1 + self._received[rows] / self._received.max().clamp(min=1e-30)
        self._order = first.argsort(descending=True, stable=True)  # rows first, largest first
        self._place = torch.empty_like(self._order)
        self._place[self._order] = torch.arange(num_nodes, device=rows.device)
        if nodes is not None:  # places from here on are in no block
            self._order = self._order[nodes[self._order]]
            first_closed = self._order.numel()
            self._place.fill_(first_closed)
            self._place[self._order] = torch.arange(first_closed, device=rows.device)
        self.num_columns = self._order.numel()
        self._present = self._located(edges.codes)
        self._forbidden = self._located(forbidden)

    def above(self, start: int, size: int, lowest: float, count: int) -> tuple[Tensor, Tensor]:
        """Return codes and gains of the best `count` above `lowest` in `size` rows from `start`."""
        rows, positions = self._order[start : start + size], self._reachable(start, size, lowest)
        gains = self._gradients.block(rows, self._order[positions])
        self._at(gains, self._present, start, positions, torch.neg)
        self._at(gains, self._forbidden, start, positions, _never)
        # Each pair of two rows of this block counts once; a node has no pair with itself.
        inner = int(torch.searchsorted(positions, start + size))
        row_numbers = torch.arange(start, start + size, device=positions.device)
        gains[:, :inner].masked_fill_(positions[:inner] <= row_numbers[:, None], -math.inf)
        result = (gains > lowest).flatten().nonzero().squeeze(1)
        values = gains.flatten()[result]
        values, best = values.topk(min(count, values.numel()))
        row, column = result[best] // positions.numel(), result[best] % positions.numel()
        ends = torch.stack([rows[row], self._order[positions[column]]])
        return self._edges.encode(ends), values

    def _reachable(self, start: int, size: int, lowest: float) -> Tensor:
        """Return places from `start` on whose pairs with the block's rows may exceed `lowest`."""
        positions = torch.arange(start, self._order.numel(), device=self._order.device)
        if lowest == -math.inf:
            return positions
        rows, columns = self._order[start : start + size], self._order[start:]
        t = self._gradients.degrees
        bound = self._received[rows].max() * self._sent[columns]
        bound += self._sent[rows].max() * self._received[columns]
        bound += t[rows].abs().max() + t[columns].abs()
        return positions[~(bound * (1 + 1e-5) <= lowest)]  # NaN is not a bound

    def _located(self, codes: Tensor) -> Tensor:
        """Return places [2, m] of the ends of pairs, the end that comes first as a row on top."""
        positions = self._place[self._edges.ends(codes)]
        positions = torch.stack([positions.amin(0), positions.amax(0)])
        return positions[:, positions[0].argsort()]

    def _at(
        self, gains: Tensor, located: Tensor, start: int, places: Tensor, change: _Change
    ) -> None:
        """Change the gains [r, c] of the pairs that are in the block, in place."""
        edge = located[0].new_tensor([start, start + gains.shape[0]])
        low, high = torch.searchsorted(located[0], edge).tolist()
        row, column = located[:, low:high]
        where = torch.searchsorted(places, column).clamp(max=max(0, places.numel() - 1))
        held = (
            places[where] == column if places.numel() else torch.zeros_like(row, dtype=torch.bool)
        )
        row, where = row[held] - start, where[held]
        gains[row, where] = change(gains[row, where])


def _never(gains: Tensor) -> Tensor:
    return torch.full_like(gains, -math.inf)
