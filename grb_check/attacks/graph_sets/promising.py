"""Where the attacks on graphs get their flips from: gradients for all pairs, or for random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import torch
from torch import Tensor

from grb_check.attacks.edges.edge_set import EdgeSet
from grb_check.attacks.edges.greedy import last_edges
from grb_check.attacks.graph_sets.graph_list import Copies, GraphList, in_order, nothing
from grb_check.attacks.graph_sets.hashed_draws import new_salt, uniform
from grb_check.attacks.graph_sets.pair_ranking import (
    RankedKinds,
    RankedRows,
    best_of_each,
    largest,
    ranked_rows,
)
from grb_check.attacks.graph_sets.standings import RowValues
from grb_check.attacks.pair_gradients import PairGradients
from grb_check.errors import GradientError

RANDOM_PAIRS: Final = 300  # of a graph, tried each time where gradients for all are not told
TRIAL_NODES: Final = 2_000  # of the graphs on which it is found out what the model tells


class PairSource(Protocol):
    """Ranks flips of graphs."""

    def __call__(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None = None
    ) -> RankedKinds:
        """At most `count` additions and `count` removals of each graph [V] under its flips [V, B].

        Those are not among them, nor, where no node may be isolated, removals that would do so.

        Args:
            weights: float [V, B], 0 to 1, how much each of `flips` is made; 1 if not given.
        """
        ...


@dataclass(frozen=True, eq=False)
class Search:
    """What an attack on graphs has at hand.

    Attributes:
        graphs: all of them.
        values: the objective of each, see `standings.values_of`.
        source: where flips come from.
        isolate: whether a node may lose its last edge.
    """

    graphs: GraphList
    values: RowValues
    source: PairSource
    isolate: bool


def search_of(
    graphs: GraphList,
    values: RowValues,
    *,
    isolate: bool,
    block_size: int,
    generator: torch.Generator,
) -> Search:
    """With flips among all pairs where the model tells their gradients, else among random ones.

    Found out on the first graphs with a budget; what the model learns of itself there it keeps
    for all others.

    Args:
        graphs: at least one of them can be attacked.
        block_size: of a graph's pairs, tried each time where they are random; at most
            `RANDOM_PAIRS` are. All pairs are where there are no more.

    Raises:
        GradientError: the model gives no gradient for the weights of edges at all.
    """
    first = graphs.attackable()
    nodes = graphs.sizes[first].cumsum(0)
    first = first[: 1 + int((nodes < TRIAL_NODES).sum())]
    trial = graphs.copies(first, nothing(first.numel(), 0, first))
    graphs = replace(graphs, model=trial.model)
    some_pairs = _RandomPairs(graphs, values, isolate, min(block_size, RANDOM_PAIRS), generator)
    if _all_gradients(trial, values, trial.edge_index) is not None:
        every_pair = _AllPairs(graphs, values, isolate, some_pairs)
        return Search(graphs, values, every_pair, isolate)
    _, pairs = trial.pairs(_random_block(trial, first, some_pairs.most, new_salt(generator)))
    if weighted_logits(trial, pairs) is None:
        raise GradientError(
            "the model gives no gradient for edges: it takes no weights of them, neither as "
            "edge_weight nor as a matrix nor on the messages of its layers"
        )
    return Search(graphs, values, some_pairs, isolate)


@dataclass(frozen=True, eq=False)
class _AllPairs:
    graphs: GraphList
    values: RowValues
    isolate: bool
    otherwise: _RandomPairs

    def __call__(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None = None
    ) -> RankedKinds:
        parts = list(self.graphs.parts(owners))
        return self._of_parts(parts, owners, flips, count, weights)

    def _of_parts(
        self,
        parts: Sequence[Tensor],
        owners: Tensor,
        flips: Tensor,
        count: int,
        weights: Tensor | None,
    ) -> RankedKinds:
        return _stacked(
            [
                self._ranked(owners[p], flips[p], count, None if weights is None else weights[p])
                for p in parts
            ]
        )

    def _ranked(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None
    ) -> RankedKinds:
        """Of the graphs of one pass; of fewer where the factors of all would take too much."""
        copies = self.graphs.copies(owners, flips)
        if weights is None:
            gradients = _all_gradients(copies, self.values, copies.edge_index)
        else:
            edges, of_edges = _partly_flipped(copies, flips, weights)
            both = edges.edge_index()
            order = in_order(both, edges.num_nodes)
            of_both = of_edges.repeat(2)[order]
            gradients = _all_gradients(copies, self.values, both[:, order], of_both)
            copies = replace(copies, edges=copies.clean)
        if gradients is not None:
            barred = _forbidden(copies, flips, self.isolate)
            return best_of_each(gradients, copies, barred, count)
        if owners.numel() == 1:  # a layer that follows a formula on one graph may not on another
            return self.otherwise(owners, flips, count, weights)
        halves = copies.every.tensor_split(2)
        return self._of_parts(halves, owners, flips, count, weights)


@dataclass(frozen=True, eq=False)
class _RandomPairs:
    graphs: GraphList
    values: RowValues
    isolate: bool
    most: int
    generator: torch.Generator

    def __call__(
        self, owners: Tensor, flips: Tensor, count: int, weights: Tensor | None = None
    ) -> RankedKinds:
        """Those that are made by more than a half are taken as made."""
        made = flips if weights is None else torch.where(weights > 0.5, flips, -1)
        salt, found = new_salt(self.generator), []
        for part in self.graphs.parts(owners, self.graphs.pair_counts[owners].clamp(max=self.most)):
            copies = self.graphs.copies(owners[part], made[part])
            block = _random_block(copies, owners[part], self.most, salt)
            block = _without(block, copies, _forbidden(copies, flips[part], self.isolate))
            found.append(
                _ranked_kinds(copies, block, pair_gains(copies, self.values, block), count)
            )
        return _stacked(found)


def pair_gains(copies: Copies, values: RowValues, codes: Tensor) -> Tensor:
    """The first-order gain of flipping each of the pairs codes [V, m]: float [V, m].

    0 for -1, and where these pairs of these graphs happen to have no gradient.
    """
    given, pairs = copies.pairs(codes)
    gains = copies.x.new_zeros(codes.shape)
    logits_of = weighted_logits(copies, pairs)
    if logits_of is None:
        return gains
    present = copies.edges.has(copies.edges.encode(pairs))
    weights = present.to(copies.x.dtype).requires_grad_()
    with torch.enable_grad():
        total = values(logits_of(weights), copies.labels).sum()
        (gradient,) = torch.autograd.grad(total, weights)
    gains[given] = torch.where(present, -gradient, gradient)
    return gains


def weighted_logits(copies: Copies, pairs: Tensor) -> Callable[[Tensor], Tensor] | None:
    """The model's map from weights of pairs [2, m] to logits of all copies, if it has one."""
    if not pairs.numel():
        return None
    return copies.model.with_pairs(copies.x, copies.edge_index, pairs, copies.every)


def _all_gradients(
    copies: Copies, values: RowValues, edge_index: Tensor, weights: Tensor | None = None
) -> PairGradients | None:
    def total(logits: Tensor) -> Tensor:
        return values(logits, copies.labels).sum()

    return copies.model.pair_gradients(copies.x, edge_index, copies.every, total, weights)


def _partly_flipped(copies: Copies, flips: Tensor, weights: Tensor) -> tuple[EdgeSet, Tensor]:
    """Clean edges and flips together, and their weights: what an edge keeps, what a pair gets."""
    given, pairs = copies.pairs(flips)
    flipped = copies.clean.encode(pairs)
    present = copies.clean.has(flipped)
    codes = torch.cat([copies.clean.codes, flipped[~present]]).sort().values
    of_edges = torch.ones_like(codes, dtype=copies.x.dtype)
    of_flips = weights[given].to(of_edges)
    of_edges[torch.searchsorted(codes, flipped)] = torch.where(present, 1 - of_flips, of_flips)
    return EdgeSet(codes, copies.clean.num_nodes), of_edges


def _forbidden(copies: Copies, flips: Tensor, isolate: bool) -> Tensor:
    """int64 [2, f], pairs in the copies' numbers: the flips, and last edges that have to stay."""
    _, pairs = copies.pairs(flips)
    if isolate:
        return pairs
    last = last_edges(copies.clean, copies.edges)
    return torch.cat([pairs, copies.clean.ends(last)], dim=1)


def _random_block(copies: Copies, owners: Tensor, most: int, salt: int) -> Tensor:
    """Codes int64 [V, m] of distinct pairs of each graph: all where there are at most `most`, else
    random ones, of which a fourth are edges."""
    sizes = copies.sizes[:, None]
    every = torch.arange(most, device=owners.device)
    all_pairs = sizes * (sizes - 1) // 2
    first, second = _pair_numbered(every, sizes)
    complete = torch.where(every < all_pairs, first * sizes + second, -1)

    ends = [
        (uniform(salt, owners[:, None], every, every.new_tensor(end)) * sizes).long()
        for end in (0, 1)
    ]
    low, high = torch.minimum(*ends), torch.maximum(*ends)
    drawn = torch.where(low < high, low * sizes + high, -1)
    edges = _random_edges(copies, owners, most // 4, salt)
    drawn = _distinct(torch.cat([edges, drawn], dim=1)[:, :most])
    return torch.where(all_pairs <= most, complete, drawn)


def _random_edges(copies: Copies, owners: Tensor, most: int, salt: int) -> Tensor:
    """Codes int64 [V, most] of random edges of each graph, some of them more than once."""
    rows, codes = copies.local(copies.edges.ends(copies.edges.codes))
    if not codes.numel():
        return nothing(owners.numel(), most, codes)
    found = torch.bincount(rows, minlength=owners.numel())
    every = torch.arange(most, device=owners.device)
    place = uniform(salt, owners[:, None], every, every.new_tensor(2)) * found[:, None]
    place = (place.long() + (found.cumsum(0) - found)[:, None]).clamp(max=codes.numel() - 1)
    return torch.where(found[:, None] > 0, codes[place], -1)


def _pair_numbered(numbers: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs (1, 0), (2, 0), (2, 1), (3, 0), ... of these numbers, the smaller end first."""
    second = ((1 + (1 + 8 * numbers.double()).sqrt()) / 2).long()
    first = numbers - second * (second - 1) // 2
    return first.expand(sizes.shape[0], -1), second.expand(sizes.shape[0], -1)


def _distinct(codes: Tensor) -> Tensor:
    """Codes [V, m] with -1 for all that come a second time in their row; sorted."""
    ordered = codes.sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.where(again, -1, ordered)


def _without(codes: Tensor, copies: Copies, barred: Tensor) -> Tensor:
    """Codes [V, m] with -1 for the pairs [2, f] in the copies' numbers."""
    given, pairs = copies.pairs(codes)
    refused = torch.isin(copies.clean.encode(pairs), copies.clean.encode(barred))
    kept = codes[given].masked_fill(refused, -1)
    return codes.masked_scatter(given, kept)


def _ranked_kinds(copies: Copies, codes: Tensor, gains: Tensor, count: int) -> RankedKinds:
    """Codes [V, m] and their gains, by what flipping them does."""
    given, pairs = copies.pairs(codes)
    present = torch.zeros_like(given)
    present[given] = copies.edges.has(copies.edges.encode(pairs))
    scales = largest(codes, gains)
    return RankedKinds(
        ranked_rows(codes.masked_fill(present, -1), gains, scales, count),
        ranked_rows(codes.masked_fill(~present, -1), gains, scales, count),
    )


def _stacked(found: list[RankedKinds]) -> RankedKinds:
    kinds = ([each.additions for each in found], [each.removals for each in found])
    additions, removals = (
        RankedRows(
            torch.cat([each.codes for each in rows]), torch.cat([each.gains for each in rows])
        )
        for rows in kinds
    )
    return RankedKinds(additions, removals)
