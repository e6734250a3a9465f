"""Sources of candidate flips of graphs: a model's gradients for all pairs, or for random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.graph_list import (
    Copies,
    GraphList,
    new_key,
    no_flips,
    row_major_order,
    uniform,
)
from grb_check.attacks.graph_sets.pair_ranking import (
    RankedKinds,
    RankedRows,
    best_of_each,
    largest,
    ranked_rows,
)
from grb_check.attacks.modification.shared.flip_sources import NO_GRADIENT
from grb_check.attacks.modification.shared.flip_weights import gains_of_flips
from grb_check.attacks.modification.shared.greedy import last_edges
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import PairGradients
from grb_check.errors import GradientError

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
