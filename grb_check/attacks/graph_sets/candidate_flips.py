"""Sources of candidate flips of graphs: a model's gradients for all pairs, or for random ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.graph_list import (
    Copies,
    GraphList,
    new_key,
    no_flips,
    packed,
    rounding_step,
    row_major_order,
    uniform,
)
from grb_check.attacks.modification.shared.edge_search import last_edges
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_sources import (
    NO_GRADIENT,
    best_flips,
    gains_of_flips,
)
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import PairGradients
from grb_check.errors import GradientError

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
        scales: float [V], size of the terms of each graph's gains, see `graph_list.rounding_step`.
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


RANDOM_PAIRS: Final = 300  # of a graph, drawn each time if the model lacks gradients of all pairs
TRIAL_NODES: Final = 2_000  # of the graphs on which it is found out which gradients it has


RowObjective = Callable[[Tensor, Tensor], Tensor]


def row_objective(name: str) -> RowObjective:
    """Return the objective of that name for each graph alone: logits [V, c], labels [V] to [V].

    `held_margin` becomes the margin: it would be scaled by the margin of the single target, so that
    its gradient has the same direction; and unlike it, the margin still has a gradient once a graph
    is misclassified, for the rest of its budget.
    """
    objective = objective_named("margin" if name == "held_margin" else name)
    by_row = torch.func.vmap(lambda row, label: objective(row[None], label[None]))
    return lambda logits, labels: by_row(logits, labels)


class GraphFlipSource(Protocol):
    """Ranks flips of graphs."""

    def __call__(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None = None
    ) -> RankedKinds:
        """Return `count` additions and `count` removals of each graph [V] with flips [V, B] made.

        Fewer if there are fewer. These flips are not among them, nor removals that would isolate a
        node if that is not allowed.

        Args:
            weights: float [V, B], 0 to 1, how much each of `flips` is made; 1 if not given.
        """
        ...


@dataclass(frozen=True, eq=False)
class Search:
    """The fixed part of a search for flips in graphs.

    Attributes:
        graphs: all graphs.
        objective: of each graph, see `row_objective`.
        source: of candidate flips.
        isolate: whether a node may lose its last edge.
    """

    graphs: GraphList
    objective: RowObjective
    source: GraphFlipSource
    isolate: bool


def search_of(
    graphs: GraphList,
    objective: RowObjective,
    *,
    isolate: bool,
    block_size: int,
    generator: torch.Generator,
) -> Search:
    """Return a search among all pairs if the model has their gradients, else random pairs.

    That is found out on the first graphs with a budget, and holds for all others.

    Args:
        graphs: of which at least one can be attacked.
        block_size: number of random pairs of a graph, at most `RANDOM_PAIRS`; a graph with fewer
            pairs is searched completely.

    Raises:
        GradientError: the model has no gradient for the weights of edges.
    """
    first = graphs.attackable()
    nodes = graphs.sizes[first].cumsum(0)
    first = first[: 1 + int((nodes < TRIAL_NODES).sum())]
    trial = graphs.copies(first)
    graphs = replace(graphs, model=trial.model)
    some_pairs = _RandomPairs(graphs, objective, isolate, min(block_size, RANDOM_PAIRS), generator)
    if _all_gradients(trial, objective, trial.edge_index) is not None:
        every_pair = _AllPairs(graphs, objective, isolate, some_pairs)
        return Search(graphs, objective, every_pair, isolate)
    _, pairs = trial.pairs(_random_block(trial, first, some_pairs.most, new_key(generator)))
    if weighted_logits(trial, pairs) is None:
        raise GradientError(NO_GRADIENT)
    return Search(graphs, objective, some_pairs, isolate)


@dataclass(frozen=True, eq=False)
class _AllPairs:
    graphs: GraphList
    objective: RowObjective
    isolate: bool
    otherwise: _RandomPairs

    def __call__(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None = None
    ) -> RankedKinds:
        """Rank all pairs in passes of bounded size, smaller if the gradients' factors need it."""
        parts: Sequence[Tensor] = list(self.graphs.parts(owners))
        if len(parts) == 1:
            result = self._ranked(owners, flips, count, weights)
            if result is not None:
                return result
            if owners.numel() == 1:  # layers may have closed forms on some graphs only
                return self.otherwise(owners, flips, count, weights)
            parts = torch.arange(owners.numel(), device=owners.device).tensor_split(2)
        return _stacked(
            [
                self(owners[part], flips[part], count, None if weights is None else weights[part])
                for part in parts
            ]
        )

    def _ranked(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None
    ) -> RankedKinds | None:
        copies = self.graphs.copies(owners, flips)
        if weights is None:
            gradients = _all_gradients(copies, self.objective, copies.edge_index)
        else:
            given, pairs = copies.pairs(flips)
            of_flips = weights[given].to(copies.x.dtype)
            edges, of_edges = copies.clean.partly_flipped(copies.clean.encode(pairs), of_flips)
            both = edges.edge_index()
            order = row_major_order(both, edges.num_nodes)
            of_both = of_edges.repeat(2)[order]
            gradients = _all_gradients(copies, self.objective, both[:, order], of_both)
            copies = replace(copies, edges=copies.clean)
        if gradients is None:
            return None
        return best_of_each(gradients, copies, _forbidden(copies, flips, self.isolate), count)


@dataclass(frozen=True, eq=False)
class _RandomPairs:
    graphs: GraphList
    objective: RowObjective
    isolate: bool
    most: int
    generator: torch.Generator

    def __call__(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None = None
    ) -> RankedKinds:
        """Rank random pairs; flips of weight above 0.5 count as made."""
        created = flips if weights is None else torch.where(weights > 0.5, flips, -1)
        key, result = new_key(self.generator), []
        for part in self.graphs.parts(owners, self.graphs.pair_counts[owners].clamp(max=self.most)):
            copies = self.graphs.copies(owners[part], created[part])
            block = _random_block(copies, owners[part], self.most, key)
            block = _without(block, copies, _forbidden(copies, flips[part], self.isolate))
            result.append(
                _ranked_kinds(copies, block, pair_gains(copies, self.objective, block), count)
            )
        return _stacked(result)


def pair_gains(copies: Copies, objective: RowObjective, codes: Tensor) -> Tensor:
    """Return the first-order gain of flipping each of the pairs codes [V, m], float [V, m].

    0 for -1, and for all if these pairs of these graphs happen to have no gradient.
    """
    given, pairs = copies.pairs(codes)
    gains = copies.x.new_zeros(codes.shape)
    logits_of = weighted_logits(copies, pairs)
    if logits_of is None:
        return gains
    present = copies.edges.has(copies.edges.encode(pairs))
    gains[given] = gains_of_flips(
        lambda weights: objective(logits_of(weights), copies.labels).sum(), present, gains[given]
    )
    return gains


def weighted_logits(copies: Copies, pairs: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return the model's map from weights of pairs [2, m] to logits of all copies, or None."""
    if not pairs.numel():
        return None
    return copies.model.with_pairs(copies.x, copies.edge_index, pairs, copies.every)


def _all_gradients(
    copies: Copies, objective: RowObjective, edge_index: Tensor, weights: Tensor | None = None
) -> PairGradients | None:
    def total(logits: Tensor) -> Tensor:
        return objective(logits, copies.labels).sum()

    return copies.model.pair_gradients(copies.x, edge_index, copies.every, total, weights)


def _forbidden(copies: Copies, flips: Tensor, isolate: bool) -> Tensor:
    """Return pairs int64 [2, f] of copies that may not be flipped: the flips, and last edges."""
    _, pairs = copies.pairs(flips)
    if isolate:
        return pairs
    last = last_edges(copies.clean, copies.edges)
    return torch.cat([pairs, copies.clean.ends(last)], dim=1)


def _random_block(copies: Copies, owners: Tensor, most: int, key: int) -> Tensor:
    """Return codes int64 [V, m] of distinct pairs of each graph: all if at most `most`, otherwise
    random ones, a fourth of them edges."""
    sizes = copies.sizes[:, None]
    every = torch.arange(most, device=owners.device)
    all_pairs = sizes * (sizes - 1) // 2
    first, second = _pair_numbered(every, sizes)
    complete = torch.where(every < all_pairs, first * sizes + second, -1)

    ends = [
        (uniform(key, owners[:, None], every, every.new_tensor(end)) * sizes).long()
        for end in (0, 1)
    ]
    low, high = torch.minimum(*ends), torch.maximum(*ends)
    drawn = torch.where(low < high, low * sizes + high, -1)
    edges = _random_edges(copies, owners, most // 4, key)
    drawn = _distinct(torch.cat([edges, drawn], dim=1)[:, :most])
    return torch.where(all_pairs <= most, complete, drawn)


def _random_edges(copies: Copies, owners: Tensor, most: int, key: int) -> Tensor:
    """Return codes int64 [V, most] of random edges of each graph, possibly with repetitions."""
    rows, codes = copies.local(copies.edges.ends(copies.edges.codes))
    if not codes.numel():
        return no_flips(owners.numel(), most, codes)
    result = torch.bincount(rows, minlength=owners.numel())
    every = torch.arange(most, device=owners.device)
    position = uniform(key, owners[:, None], every, every.new_tensor(2)) * result[:, None]
    position = (position.long() + (result.cumsum(0) - result)[:, None]).clamp(max=codes.numel() - 1)
    return torch.where(result[:, None] > 0, codes[position], -1)


def _pair_numbered(numbers: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pairs at these positions of (0, 1), (0, 2), (1, 2), (0, 3), ..., for each size."""
    second = ((1 + (1 + 8 * numbers.double()).sqrt()) / 2).long()
    first = numbers - second * (second - 1) // 2
    return first.expand(sizes.shape[0], -1), second.expand(sizes.shape[0], -1)


def _distinct(codes: Tensor) -> Tensor:
    """Return codes [V, m] sorted, with -1 for repetitions in a row."""
    ordered = codes.sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.where(again, -1, ordered)


def _without(codes: Tensor, copies: Copies, barred: Tensor) -> Tensor:
    """Return codes [V, m] with -1 for the pairs [2, f] of the copies' nodes."""
    given, pairs = copies.pairs(codes)
    refused = torch.isin(copies.clean.encode(pairs), copies.clean.encode(barred))
    allowed_codes = codes[given].masked_fill(refused, -1)
    return codes.masked_scatter(given, allowed_codes)


def _ranked_kinds(copies: Copies, codes: Tensor, gains: Tensor, count: int) -> RankedKinds:
    """Rank codes [V, m] with gains [V, m], additions and removals separately."""
    given, pairs = copies.pairs(codes)
    present = torch.zeros_like(given)
    present[given] = copies.edges.has(copies.edges.encode(pairs))
    scales = largest(codes, gains)
    return RankedKinds(
        ranked_rows(codes.masked_fill(present, -1), gains, scales, count),
        ranked_rows(codes.masked_fill(~present, -1), gains, scales, count),
    )


def _stacked(rankings: list[RankedKinds]) -> RankedKinds:
    kinds = (
        [ranking.additions for ranking in rankings],
        [ranking.removals for ranking in rankings],
    )
    additions, removals = (
        RankedRows(torch.cat([row.codes for row in rows]), torch.cat([row.gains for row in rows]))
        for rows in kinds
    )
    return RankedKinds(additions, removals)
