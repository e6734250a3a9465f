"""A search by a model's answers alone on sets of graphs: every graph is searched at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.edge_set import EdgeSet, edge_set
from grb_check.attacks.threat import Perturbation

Margins: TypeAlias = Callable[[Perturbation], Tensor]  # float [G]; the higher, the stronger

QUERIES: Final = 60
LARGEST_SWAP: Final = 0.5  # of the flips of a graph
FROM_EDGES: Final = 0.5  # of the random flips; among all pairs edges are rare


@dataclass(frozen=True, eq=False)
class _Flips:
    """Flips of all graphs, and how strong they are in each.

    Attributes:
        codes: int64 [m], distinct, see `EdgeSet`.
        margins: float [G].
    """

    codes: Tensor
    margins: Tensor


def search_graphs(
    starts: Sequence[Perturbation],
    graph: Data,
    budgets: Tensor,
    *,
    margins: Margins,
    isolate: bool,
    generator: torch.Generator,
    queries: int = QUERIES,
) -> Perturbation:
    """What is strongest for each graph of `starts` and of random changes of that.

    As `score_search.search`, with graphs that do not know of each other: one query asks for a
    candidate of every graph, and each keeps its own if it is not weaker.

    Args:
        starts: one or more, within the threat.
        graph: clean, `edge_index` [2, 2E] and `batch` [N].
        budgets: int64 [G], the edge budget of each graph.
        margins: the victim's answer: of each graph the largest logit of another class minus that
            of its own.
        isolate: whether a node may lose its last edge.
        generator: the source of randomness.
        queries: how often the victim may be asked, beside once for each start.
    """
    clean = edge_set(graph)
    clean = EdgeSet(clean.codes.cpu(), clean.num_nodes)
    batch, budgets = graph.batch.cpu(), budgets.cpu()
    draws = _Draws(clean, batch, budgets, generator)

    def tried(codes: Tensor) -> _Flips:
        found = margins(clean.perturbation(codes)).cpu()
        if not isolate:
            found[_isolating(clean, codes, batch)] = -torch.inf
        return _Flips(codes, found)

    def better(first: _Flips, second: _Flips) -> _Flips:
        taken = second.margins >= first.margins
        kept = first.codes[~taken[_owners(clean, first.codes, batch)]]
        new = second.codes[taken[_owners(clean, second.codes, batch)]]
        return _Flips(torch.cat([kept, new]), torch.maximum(first.margins, second.margins))

    best = tried(_codes(starts[0], clean))
    for start in starts[1:]:
        best = better(best, tried(_codes(start, clean)))
    for query in range(queries):
        share = LARGEST_SWAP * (1 - query / queries) ** 2
        best = better(best, tried(draws.swapped(best.codes, share)))
    return clean.perturbation(best.codes)


class _Draws:
    """Random flips inside graphs, within the budget of each."""

    def __init__(
        self, clean: EdgeSet, batch: Tensor, budgets: Tensor, generator: torch.Generator
    ) -> None:
        self._clean, self._batch, self._budgets = clean, batch, budgets
        self._generator = generator
        self._sizes = torch.bincount(batch, minlength=budgets.numel())
        self._starts = self._sizes.cumsum(0) - self._sizes

    def swapped(self, codes: Tensor, share: float) -> Tensor:
        """Flips [m] with a share of those of each graph, at least one, drawn anew."""
        owners = _owners(self._clean, codes, self._batch)
        counts = torch.bincount(owners, minlength=self._budgets.numel())
        dropped = (share * counts).long().clamp(min=1)
        order = self._shuffled(codes.numel())
        kept = codes[order[_rank_in_group(owners[order]) >= dropped[owners[order]]]]
        drawn = self._random()
        drawn = drawn[~torch.isin(drawn, kept)]
        drawn = drawn[self._shuffled(drawn.numel())]
        room = self._budgets - torch.bincount(
            _owners(self._clean, kept, self._batch), minlength=self._budgets.numel()
        )
        of_graph = _owners(self._clean, drawn, self._batch)
        return torch.cat([kept, drawn[_rank_in_group(of_graph) < room[of_graph]]])

    def _random(self) -> Tensor:
        """Codes of distinct random pairs, about twice each graph's budget."""
        graph = torch.repeat_interleave(2 * self._budgets)
        ends = (
            self._starts[graph]
            + (
                torch.rand((2, graph.numel()), generator=self._generator) * self._sizes[graph]
            ).long()
        )
        pairs = self._clean.encode(ends[:, ends[0] != ends[1]])
        edges = self._clean.codes[self._shuffled(self._clean.codes.numel())]
        of_graph = _owners(self._clean, edges, self._batch)
        most = (2 * FROM_EDGES * self._budgets).ceil().long()
        edges = edges[_rank_in_group(of_graph) < most[of_graph]]
        codes: Tensor = torch.unique(torch.cat([pairs, edges]))
        return codes

    def _shuffled(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self._generator)


def _owners(clean: EdgeSet, codes: Tensor, batch: Tensor) -> Tensor:
    """int64 [m]: the graph that each flip is in."""
    return batch[codes // clean.num_nodes]


def _rank_in_group(groups: Tensor) -> Tensor:
    """int64 [m]: how many before it have the same group."""
    order = groups.argsort(stable=True)
    counts = torch.bincount(groups)
    first = (counts.cumsum(0) - counts)[groups[order]]
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(groups.numel()) - first
    return ranks


def _codes(given: Perturbation, clean: EdgeSet) -> Tensor:
    return clean.encode(torch.cat([given.added_edges, given.removed_edges], dim=1))


def _isolating(clean: EdgeSet, codes: Tensor, batch: Tensor) -> Tensor:
    """int64 [.]: graphs in which a node would lose its last edge."""
    removed = clean.ends(codes[clean.has(codes)]).flatten()
    degrees = clean.degrees()
    left = degrees - torch.bincount(removed, minlength=clean.num_nodes)
    graphs: Tensor = torch.unique(batch[(degrees > 0) & (left <= 0)])
    return graphs
