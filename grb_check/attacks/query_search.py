"""Random search by queries, for models that give no gradient.

As the square attack on images (Andriushchenko et al. 2020, section 3), with parts of perturbations
in place of squares (our choice): half of the parts are exchanged at first, a single one in the end,
and a candidate is kept if it is not weaker. The parts are of two kinds: `ExchangedParts` of several
perturbations of one graph; and `GraphFlips` and `GraphInjections`, edge flips of a set of graphs
and nodes injected into them, which are searched all at once because no graph affects another.
Attacks that may flip any edge of one graph, and change
nothing else, have a stronger search: `shared.answer_search`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.scenarios import INJECTION, Scenario
from grb_check.attacks.threat import Perturbation

Best = TypeVar("Best")
Choice: TypeAlias = tuple[Tensor, ...]  # chosen parts of each pool, int64 [k], ascending

QUERIES: Final = 60
LARGEST_SWAP: Final = 0.5  # of the parts of a perturbation
_MOST_GRAPHS: Final = 2**31
FROM_EDGES: Final = 0.5  # of random flips in a set of graphs; among all pairs edges are rare


class Parts(Protocol[Best]):
    """One kind of parts, with the model to ask; `Best` is the strongest perturbation so far."""

    def best_start(self) -> Best:
        """Return the strongest of the perturbations to begin with."""
        ...

    def improved(self, best: Best, share: float) -> Best:
        """Return the stronger of `best` and a copy of it with that share of its parts exchanged."""
        ...

    def perturbation(self, best: Best) -> Perturbation:
        """Return what `best` stands for."""
        ...


def search(parts: Parts[Best], queries: int = QUERIES) -> Perturbation:
    """Exchange parts of the strongest start, as long as that makes it no weaker.

    Args:
        parts: the starts, and what can be exchanged.
        queries: number of candidates to ask the model about, beside the starts.
    """
    best = parts.best_start()
    for query in range(queries):
        best = parts.improved(best, LARGEST_SWAP * (1 - query / queries) ** 2)
    return parts.perturbation(best)


class _Answered(NamedTuple):
    """A perturbation, the model's answer to it, and the parts that it consists of."""

    perturbation: Perturbation
    score: tuple[float, ...]
    choice: Choice


class ExchangedParts:
    """Parts of several perturbations of one graph: flips, modified nodes, or injected nodes.

    The result is no weaker than any start, and has no more parts than the strongest of them.

    Args:
        starts: one or more, within the threat.
        donors: others within the threat, which only give parts.
        graph: clean, `edge_index` [2, 2E].
        scenario: of all perturbations.
        score: the model's answer to a perturbation; the lower, the stronger.
        allowed: what a perturbation must fulfil besides its budget; others are not asked about.
        generator: the source of randomness.
    """

    def __init__(
        self,
        starts: Sequence[Perturbation],
        donors: Sequence[Perturbation],
        graph: Data,
        scenario: Scenario,
        *,
        score: Callable[[Perturbation], tuple[float, ...]],
        allowed: Callable[[Perturbation], bool],
        generator: torch.Generator,
    ) -> None:
        self._starts = starts
        parts = _Injections if scenario == INJECTION else _Modifications
        self._parts = parts([*starts, *donors], graph)
        self._score = score
        self._allowed = allowed
        self._generator = generator

    def best_start(self) -> _Answered:
        met = [
            _Answered(start, self._score(start), choice)
            for start, choice in zip(self._starts, self._parts.choices, strict=False)
        ]
        return min(met, key=lambda candidate: candidate.score)

    def improved(self, best: _Answered, share: float) -> _Answered:
        choice = tuple(
            pool.swapped(chosen, max(1, int(share * chosen.numel())), self._generator)
            for pool, chosen in zip(self._parts.pools, best.choice, strict=True)
        )
        candidate = self._parts.built(choice)
        if not self._allowed(candidate):
            return best
        met = _Answered(candidate, self._score(candidate), choice)
        return met if met.score <= best.score else best

    def perturbation(self, best: _Answered) -> Perturbation:
        return best.perturbation


class Pool:
    """Exchangeable parts, of which at most one of each owner is used.

    Args:
        owners: int64 [m].
    """

    def __init__(self, owners: Tensor) -> None:
        self.owners = owners

    def swapped(self, chosen: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """As many parts as `chosen`, up to `count` of them new."""
        outside = torch.ones(self.owners.numel(), dtype=torch.bool)
        outside[chosen] = False
        others = outside.nonzero().squeeze(1)
        others = others[torch.randperm(others.numel(), generator=generator)]
        first = np.unique(self.owners[others].numpy(), return_index=True)[1]
        new = others[torch.from_numpy(np.sort(first))][: min(count, chosen.numel())]
        retained = chosen[~torch.isin(self.owners[chosen], self.owners[new])]
        retained = retained[torch.randperm(retained.numel(), generator=generator)]
        return torch.cat([retained[: chosen.numel() - new.numel()], new]).sort().values


class _Modifications:
    """Edge flips, each identified by its pair, and nodes with their new features."""

    def __init__(self, given: Sequence[Perturbation], graph: Data) -> None:
        self._num_nodes = int(graph.x.shape[0])
        ends = graph.edge_index.cpu()
        self._present = ends[0] * self._num_nodes + ends[1]
        flips = [self._codes(perturbation) for perturbation in given]
        self._flips = torch.unique(torch.cat(flips))
        self._nodes = torch.cat([perturbation.modified_nodes for perturbation in given])
        rows = [
            perturbation.modified_x for perturbation in given if perturbation.modified_nodes.numel()
        ]
        self._rows = torch.cat(rows) if rows else Perturbation().modified_x
        self.pools = (Pool(self._flips), Pool(self._nodes))
        sizes = [perturbation.modified_nodes.numel() for perturbation in given]
        self.choices: tuple[Choice, ...] = tuple(
            (torch.searchsorted(self._flips, codes.sort().values), nodes)
            for codes, nodes in zip(flips, _ranges(sizes), strict=True)
        )

    def built(self, choice: Choice) -> Perturbation:
        flips, nodes = self._flips[choice[0]], choice[1]
        is_edge = torch.isin(flips, self._present)
        return Perturbation(
            added_edges=self._pairs(flips[~is_edge]),
            removed_edges=self._pairs(flips[is_edge]),
            modified_nodes=self._nodes[nodes],
            modified_x=self._rows[nodes],
        )

    def _codes(self, given: Perturbation) -> Tensor:
        both = torch.cat([given.added_edges, given.removed_edges], dim=1)
        return both[0] * self._num_nodes + both[1]

    def _pairs(self, codes: Tensor) -> Tensor:
        return torch.stack([codes // self._num_nodes, codes % self._num_nodes])


class _Injections:
    """Injected nodes, each with its features and its links to existing nodes.

    A link between two injected nodes stays if both are still from the same perturbation. In a set
    of graphs a node is only exchanged for one of the same graph.
    """

    def __init__(self, given: Sequence[Perturbation], graph: Data) -> None:
        self._num_nodes = int(graph.x.shape[0])
        sizes = [perturbation.injected_x.shape[0] for perturbation in given]
        self._origin = torch.repeat_interleave(torch.arange(len(given)), torch.tensor(sizes))
        self._x = torch.cat(
            [perturbation.injected_x for perturbation in given if perturbation.injected_x.shape[0]]
            or [Perturbation().injected_x]
        )
        self._links = [perturbation.injected_edges for perturbation in given]
        self._graphs = torch.cat([perturbation.injected_graphs for perturbation in given])
        self._slots = torch.cat([_slots_of(perturbation) for perturbation in given])
        self._numbers = torch.cat([torch.arange(size) for size in sizes])
        self.pools = (Pool(self._slots),)
        self.choices: tuple[Choice, ...] = tuple((nodes,) for nodes in _ranges(sizes))

    def graphs_of(self, units: Tensor) -> Tensor:
        """Return the graph int64 [k] of each of the chosen nodes, in a set of graphs."""
        return self._graphs[units]

    def built(self, choice: Choice) -> Perturbation:
        (units,) = choice
        units = units[self._slots[units].argsort()]
        links = [
            self._links_of(origin, units) for origin in torch.unique(self._origin[units]).tolist()
        ]
        return Perturbation(
            injected_x=self._x[units],
            injected_edges=torch.cat([*links, Perturbation().injected_edges], dim=1),
            injected_graphs=self._graphs[units] if self._graphs.numel() else units[:0],
        )

    def _links_of(self, origin: int, units: Tensor) -> Tensor:
        """Links of the nodes from one perturbation, numbered by their places among the units."""
        from_here = (self._origin[units] == origin).nonzero().squeeze(1)
        position = torch.full((int(self._numbers.max()) + 1,), -1)
        position[self._numbers[units[from_here]]] = from_here
        first, second = self._links[origin]
        inner = second >= self._num_nodes
        partner = position[torch.where(inner, second - self._num_nodes, 0)]
        valid = (position[first] >= 0) & (~inner | (partner >= 0))
        second = torch.where(inner, partner + self._num_nodes, second)
        return torch.stack([position[first], second])[:, valid]


def _slots_of(given: Perturbation) -> Tensor:
    """Return a number int64 [n] for each injected node: its place, among those of its graph if it
    is in a set of graphs. Equal numbers of two perturbations stand for nodes of the same graph."""
    graphs = given.injected_graphs
    if not graphs.numel():
        return torch.arange(given.injected_x.shape[0])
    return _rank_in_group(graphs) * _MOST_GRAPHS + graphs


def _ranges(sizes: Sequence[int]) -> list[Tensor]:
    """Consecutive integers from 0 on, cut into parts of these sizes."""
    return [
        torch.arange(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]


class _InjectedUnits(NamedTuple):
    """Injected nodes of all graphs: units int64 [k], see `_Injections`, and margins float [G]."""

    units: Tensor
    margins: Tensor


class GraphInjections:
    """Nodes injected into a set of graphs: one query tries a candidate of every graph.

    Every graph keeps its own candidate if that is not weaker.

    Args:
        starts: one or more, within the threat.
        donors: others within the threat, which only give nodes.
        graph: clean, with `batch` [N].
        margins: as of `GraphFlips`.
        generator: the source of randomness.
    """

    def __init__(
        self,
        starts: Sequence[Perturbation],
        donors: Sequence[Perturbation],
        graph: Data,
        *,
        margins: Callable[[Perturbation], Tensor],
        generator: torch.Generator,
    ) -> None:
        self._parts = _Injections([*starts, *donors], graph)
        self._count = len(starts)
        self._margins = margins
        self._generator = generator

    def best_start(self) -> _InjectedUnits:
        best, *others = (self._tried(units) for (units,) in self._parts.choices[: self._count])
        for other in others:
            best = self._better(best, other)
        return best

    def improved(self, best: _InjectedUnits, share: float) -> _InjectedUnits:
        (pool,) = self._parts.pools
        count = max(1, int(share * best.units.numel()))
        return self._better(best, self._tried(pool.swapped(best.units, count, self._generator)))

    def perturbation(self, best: _InjectedUnits) -> Perturbation:
        return self._parts.built((best.units,))

    def _tried(self, units: Tensor) -> _InjectedUnits:
        return _InjectedUnits(units, self._margins(self._parts.built((units,))).cpu())

    def _better(self, first: _InjectedUnits, second: _InjectedUnits) -> _InjectedUnits:
        """For each graph the stronger nodes; of equals the second."""
        taken = second.margins >= first.margins
        retained = first.units[~taken[self._parts.graphs_of(first.units)]]
        new = second.units[taken[self._parts.graphs_of(second.units)]]
        margins = torch.maximum(first.margins, second.margins)
        return _InjectedUnits(torch.cat([retained, new]).sort().values, margins)


class _Flips(NamedTuple):
    """Flips of all graphs: distinct codes int64 [m], see `EdgeSet`, and margins float [G]."""

    codes: Tensor
    margins: Tensor


class GraphFlips:
    """Edge flips of a set of graphs: one query tries a candidate of every graph.

    Every graph keeps its own candidate if that is not weaker.

    Args:
        starts: one or more, within the threat.
        graph: clean, `edge_index` [2, 2E] and `batch` [N].
        budgets: int64 [G], the edge budget of each graph.
        margins: the model's answer to a perturbation, float [G]: of each graph the largest logit of
            another class minus that of its own; the higher, the stronger.
        isolate: whether a node may lose its last edge.
        generator: the source of randomness.
    """

    def __init__(
        self,
        starts: Sequence[Perturbation],
        graph: Data,
        budgets: Tensor,
        *,
        margins: Callable[[Perturbation], Tensor],
        isolate: bool,
        generator: torch.Generator,
    ) -> None:
        clean = edge_set(graph)
        self._clean = EdgeSet(clean.codes.cpu(), clean.num_nodes)
        self._starts = starts
        self._batch, self._budgets = graph.batch.cpu(), budgets.cpu()
        self._margins = margins
        self._isolate = isolate
        self._generator = generator
        self._sizes = torch.bincount(self._batch, minlength=budgets.numel())
        self._first_nodes = self._sizes.cumsum(0) - self._sizes

    def best_start(self) -> _Flips:
        best, *others = (
            self._tried(
                self._clean.encode(torch.cat([start.added_edges, start.removed_edges], dim=1))
            )
            for start in self._starts
        )
        for other in others:
            best = self._better(best, other)
        return best

    def improved(self, best: _Flips, share: float) -> _Flips:
        return self._better(best, self._tried(self._swapped(best.codes, share)))

    def perturbation(self, best: _Flips) -> Perturbation:
        return self._clean.perturbation(best.codes)

    def _tried(self, codes: Tensor) -> _Flips:
        margins = self._margins(self._clean.perturbation(codes)).cpu()
        if not self._isolate:
            margins[self._isolating(codes)] = -torch.inf
        return _Flips(codes, margins)

    def _better(self, first: _Flips, second: _Flips) -> _Flips:
        """For each graph the stronger flips; of equals the second."""
        taken = second.margins >= first.margins
        retained = first.codes[~taken[self._graphs_of(first.codes)]]
        new = second.codes[taken[self._graphs_of(second.codes)]]
        return _Flips(torch.cat([retained, new]), torch.maximum(first.margins, second.margins))

    def _swapped(self, codes: Tensor, share: float) -> Tensor:
        """Flips [m], a share of those of each graph, at least one, replaced by random ones."""
        owners = self._graphs_of(codes)
        counts = torch.bincount(owners, minlength=self._budgets.numel())
        dropped = (share * counts).long().clamp(min=1)
        order = self._shuffled(codes.numel())
        retained = codes[order[_rank_in_group(owners[order]) >= dropped[owners[order]]]]
        drawn = self._random()
        drawn = drawn[~torch.isin(drawn, retained)]
        drawn = drawn[self._shuffled(drawn.numel())]
        used = torch.bincount(self._graphs_of(retained), minlength=self._budgets.numel())
        owners = self._graphs_of(drawn)
        return torch.cat([retained, drawn[_rank_in_group(owners) < (self._budgets - used)[owners]]])

    def _random(self) -> Tensor:
        """Codes of distinct random pairs, about twice each graph's budget."""
        graph = torch.repeat_interleave(2 * self._budgets)
        inside = torch.rand((2, graph.numel()), generator=self._generator) * self._sizes[graph]
        ends = self._first_nodes[graph] + inside.long()
        pairs = self._clean.encode(ends[:, ends[0] != ends[1]])
        edges = self._clean.codes[self._shuffled(self._clean.codes.numel())]
        owners = self._graphs_of(edges)
        most = (2 * FROM_EDGES * self._budgets).ceil().long()
        edges = edges[_rank_in_group(owners) < most[owners]]
        codes: Tensor = torch.unique(torch.cat([pairs, edges]))
        return codes

    def _isolating(self, codes: Tensor) -> Tensor:
        """int64 [.]: graphs in which a node would lose its last edge."""
        removed = self._clean.ends(codes[self._clean.has(codes)]).flatten()
        degrees = self._clean.degrees()
        left = degrees - torch.bincount(removed, minlength=self._clean.num_nodes)
        graphs: Tensor = torch.unique(self._batch[(degrees > 0) & (left <= 0)])
        return graphs

    def _graphs_of(self, codes: Tensor) -> Tensor:
        """int64 [m]: the graph of each flip."""
        graphs: Tensor = self._batch[codes // self._clean.num_nodes]
        return graphs

    def _shuffled(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self._generator)


def _rank_in_group(groups: Tensor) -> Tensor:
    """int64 [m]: the number of earlier elements of the same group."""
    order = groups.argsort(stable=True)
    counts = torch.bincount(groups)
    first = (counts.cumsum(0) - counts)[groups[order]]
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(groups.numel()) - first
    return ranks
