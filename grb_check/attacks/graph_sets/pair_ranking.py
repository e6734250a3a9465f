"""The flips of largest gain in each graph of a set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.graph_list import (
    Copies,
    no_flips,
    packed,
)
from grb_check.attacks.graph_sets.rounding import rounding_step
from grb_check.attacks.modification.shared.best_flips import best_flips
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.protocol import PairGradients

LARGE: Final = 1_500  # nodes; larger graphs are searched block by block, one at a time
ENTRIES: Final = 4_000_000  # pairs of graphs of similar size that are ranked together
GROWTH: Final = 1.25  # ratio of sizes among them
_LEVELS: Final = 2**21  # more rounding steps than any gain has


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Flips of one kind in V graphs, by descending gain.

    Attributes:
        codes: int64 [V, k], see `GraphList`.
        gains: float [V, k], first-order gains of the objective, 0 if below the rounding error; -inf
            for no flip.
    """

    codes: Tensor
    gains: Tensor


@dataclass(frozen=True, eq=False)
class RankedKinds:
    """Additions and removals of V graphs, ranked separately.

    A gradient predicts the effect of a removal poorly: it is taken at the full weight of the edge,
    while normalised weights change most as the weight approaches 0. On molecules most of the
    strongest single flips are removals, whose gains are several times too small, while those of
    additions are too large.
    """

    additions: RankedRows
    removals: RankedRows

    def in_turn(self) -> Tensor:
        """Return codes [V, 2k]: best removal, best addition, second best removal, ..."""
        return packed(torch.stack([self.removals.codes, self.additions.codes], dim=2).flatten(1))

    def together(self, factor: float) -> RankedRows:
        """Return both kinds by gain, [V, 2k], with removals' gains multiplied by a factor."""
        codes = torch.cat([self.removals.codes, self.additions.codes], dim=1)
        gains = torch.cat([factor * self.removals.gains, self.additions.gains], dim=1)
        return ranked_rows(codes, gains, largest(codes, gains), codes.shape[1])


def ranked_rows(codes: Tensor, gains: Tensor, scales: Tensor, count: int) -> RankedRows:
    """Return the `count` flips of largest gain among codes [V, m] with gains [V, m], row by row.

    Non-finite gains count 0. Gains that are equal up to rounding are in the order of their codes:
    symmetric graphs have many, and their order should not depend on rounding.

    Args:
        scales: float [V], size of the terms of each graph's gains, see `rounding.rounding_step`.
    """
    if not codes.shape[1]:
        none = no_flips(codes.shape[0], count, codes)
        return RankedRows(none, none * math.inf)
    step = rounding_step(scales)[:, None]
    levels = (_finite(gains) / step).round().clamp(1 - _LEVELS, _LEVELS - 1)
    keys = levels.to(torch.int64).masked_fill(codes < 0, -_LEVELS) * 2**41 - codes
    order = keys.topk(min(count, keys.shape[1]), dim=1).indices
    gains = (levels * step).masked_fill(codes < 0, -math.inf)
    missing = count - order.shape[1]
    empty = no_flips(codes.shape[0], missing, codes)
    return RankedRows(
        torch.cat([codes.gather(1, order), empty], dim=1),
        torch.cat([gains.gather(1, order), empty * math.inf], dim=1),
    )


def largest(codes: Tensor, gains: Tensor) -> Tensor:
    """Return the largest size of the finite gains [V, m] of codes [V, m], float [V]."""
    zero = gains.new_zeros((gains.shape[0], 1))
    return torch.cat([zero, _finite(gains).abs().masked_fill(codes < 0, 0.0)], dim=1).amax(1)


def _finite(gains: Tensor) -> Tensor:
    return torch.nan_to_num(gains, nan=0.0, posinf=0.0, neginf=0.0)


def best_of_each(
    gradients: PairGradients, copies: Copies, forbidden: Tensor, count: int
) -> RankedKinds:
    """Return the `count` additions and `count` removals that raise each graph's objective most.

    The gain of adding a pair is its gradient, that of removing an edge minus its gradient.

    Args:
        gradients: of the graphs with the edges of the copies.
        forbidden: int64 [2, f], pairs of the copies' nodes that may not be flipped.
        count: number of flips of each kind; fewer if there are fewer.
    """
    edges, scales = copies.edges.ends(copies.edges.codes), _scales(gradients, copies)
    barred = torch.cat([edges, forbidden], dim=1)
    codes = no_flips(copies.sizes.numel(), count, copies.starts)
    gains = gradients.degrees.new_full(codes.shape, -math.inf)
    for rows in _groups(copies.sizes, copies.sizes <= LARGE):
        result = _best_of_group(gradients, copies, rows, barred, scales[rows], count)
        codes[rows], gains[rows] = result.codes, result.gains
    for row in (copies.sizes > LARGE).nonzero().squeeze(1).tolist():
        result = _best_of_one(gradients, copies, row, barred, scales[row], count)
        codes[row], gains[row] = result.codes, result.gains
    return RankedKinds(
        RankedRows(codes, gains), _best_removals(gradients, copies, edges, forbidden, scales, count)
    )


def _scales(gradients: PairGradients, copies: Copies) -> Tensor:
    """Return a bound on the terms of the gradients of each graph's pairs, float [V]."""

    def most(sizes: Tensor) -> Tensor:
        bounds = sizes.new_zeros(copies.sizes.numel())
        return bounds.scatter_reduce(0, copies.batch, _finite(sizes), "amax")

    sent, received = (vectors.norm(dim=1) for vectors in (gradients.inputs, gradients.outputs))
    return 2 * (most(sent) * most(received) + most(gradients.degrees.abs()))


def by_rows(owners: Tensor, values: Tensor, num_rows: int, fill: float) -> Tensor:
    """Arrange values [m] of rows int64 [m], ascending, as a padded [num_rows, longest row]."""
    counts = torch.bincount(owners, minlength=num_rows)
    width = int(counts.max())
    every = torch.arange(owners.numel(), device=owners.device)
    position = every - (counts.cumsum(0) - counts)[owners]
    rows = values.new_full((num_rows, width), fill)
    rows[owners, position] = values
    return rows


def _best_removals(
    gradients: PairGradients,
    copies: Copies,
    edges: Tensor,
    forbidden: Tensor,
    scales: Tensor,
    count: int,
) -> RankedRows:
    allowed = ~torch.isin(copies.edges.codes, copies.edges.encode(forbidden))
    edges = edges[:, allowed]
    owners, codes = copies.local(edges)
    num_rows = copies.sizes.numel()
    gains = by_rows(owners, -gradients.at(edges), num_rows, -math.inf)
    return ranked_rows(by_rows(owners, codes, num_rows, -1), gains, scales, count)


def _groups(sizes: Tensor, among: Tensor) -> Iterator[Tensor]:
    """Yield rows int64 [g] of graphs of similar size, each of those `among` bool [V] once."""
    rows = among.nonzero().squeeze(1)
    rows = rows[sizes[rows].argsort(stable=True)]
    ordered = sizes[rows].tolist()
    first = 0
    for position in range(1, len(ordered) + 1):
        if (
            position == len(ordered)
            or ordered[position] > GROWTH * ordered[first] + 4
            or (position + 1 - first) * ordered[position] ** 2 > ENTRIES
        ):
            yield rows[first:position]
            first = position


def _best_of_group(
    gradients: PairGradients,
    copies: Copies,
    rows: Tensor,
    barred: Tensor,
    scales: Tensor,
    count: int,
) -> RankedRows:
    """Rank the additions of graphs [g] of similar size n, padded: arrays [g, n, n]."""
    sizes = copies.sizes[rows]
    every = torch.arange(int(sizes.max()), device=rows.device)
    inside = every < sizes[:, None]
    nodes = copies.starts[rows][:, None] + torch.where(inside, every, 0)
    there = gradients.outputs[nodes] @ gradients.inputs[nodes].mT  # [g, n, n]
    degrees = gradients.degrees[nodes]
    gains = there + there.mT
    gains += degrees[:, :, None]
    gains += degrees[:, None, :]

    pairs = (every[:, None] < every) & inside[:, None, :]
    pairs[_within(copies, rows, barred)] = False
    codes = torch.where(pairs, every[:, None] * sizes[:, None, None] + every, -1)
    return ranked_rows(codes.flatten(1), gains.flatten(1), scales, count)


def _within(copies: Copies, rows: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return graph and two nodes of those pairs [2, m] that are in some graphs [g]."""
    position = torch.full_like(copies.sizes, -1)
    position[rows] = torch.arange(rows.numel(), device=rows.device)
    owner = copies.batch[pairs[0]]
    inside = position[owner] >= 0
    first, second = (pairs - copies.starts[owner])[:, inside]
    return position[owner[inside]], first, second


def _best_of_one(
    gradients: PairGradients,
    copies: Copies,
    row: int,
    barred: Tensor,
    scale: Tensor,
    count: int,
) -> RankedRows:
    """Rank the additions of one graph in the memory of a few blocks of its pairs."""
    start, size = int(copies.starts[row]), int(copies.sizes[row])
    part = slice(start, start + size)
    part_gradients = PairGradients(
        gradients.inputs[part], gradients.outputs[part], gradients.degrees[part]
    )
    inside = barred[:, (barred[0] >= start) & (barred[0] < start + size)] - start
    no_edges = EdgeSet(inside.new_empty(0), size)  # all pairs are additions; edges are barred
    everywhere = torch.arange(size, device=barred.device)
    result = best_flips(part_gradients, no_edges, everywhere, inside[0] * size + inside[1], count)
    return ranked_rows(result.codes[None], result.gains[None], scale[None], count)
