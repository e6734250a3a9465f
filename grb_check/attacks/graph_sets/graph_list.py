"""Graphs side by side, and copies of some of them with flips made, for one forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.edge_set import EdgeSet, edge_set
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Threat

TOGETHER: Final = 150_000  # nodes and edges in both directions in one pass, about 0.5 GB


class GraphModel(DifferentiableModel, Protocol):
    """A model that answers for graphs: its rows and its targets are graphs."""

    def on_graphs(self, batch: Tensor) -> GraphModel:
        """The same model for other graphs; `batch` int64 [N], rising, is the graph of each node."""
        ...


@dataclass(frozen=True, eq=False)
class GraphList:
    """Graphs that one attack is about.

    Flips of several graphs are rows int64 [V, B] of codes: first * n + second, first < second, in
    the numbers of a graph's own n nodes; what is -1 is none, and comes last in a row.

    Attributes:
        model: whose predictions the attack changes.
        x: float32 [N, d].
        edges: of all graphs, in numbers of all nodes.
        starts: int64 [G + 1], the first node of each graph, and N.
        labels: int64 [G], to move away from.
        budgets: int64 [G], 0 where a graph is none of the targets.
    """

    model: GraphModel
    x: Tensor
    edges: EdgeSet
    starts: Tensor
    labels: Tensor
    budgets: Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """int64 [G], nodes of each graph."""
        return self.starts.diff()

    @cached_property
    def edge_starts(self) -> Tensor:
        """int64 [G + 1], the first edge of each graph among the codes, and their number."""
        return torch.searchsorted(self.edges.codes, self.starts * self.edges.num_nodes)

    @cached_property
    def edge_counts(self) -> Tensor:
        """int64 [G]."""
        return self.edge_starts.diff()

    @cached_property
    def pair_counts(self) -> Tensor:
        """int64 [G], pairs of nodes of each graph."""
        return self.sizes * (self.sizes - 1) // 2

    def attackable(self) -> Tensor:
        """int64 [a], graphs with a budget and something to spend it on."""
        return ((self.budgets > 0) & (self.pair_counts > 0)).nonzero().squeeze(1)

    def parts(self, owners: Tensor, extra: Tensor | int = 0) -> Iterator[Tensor]:
        """Places int64 [p] of copies of graphs, in order, for one pass each.

        Args:
            owners: int64 [V], of which graph each copy is.
            extra: int64 [V], pairs with weights besides the edges.
        """
        weights = ((self.sizes + 2 * self.edge_counts)[owners] + 2 * extra).tolist()
        first, total = 0, 0
        for place, weight in enumerate(weights):
            if total and total + weight > TOGETHER:
                yield torch.arange(first, place, device=owners.device)
                first, total = place, 0
            total += weight
        if weights:
            yield torch.arange(first, len(weights), device=owners.device)

    def copies(self, owners: Tensor, flips: Tensor) -> Copies:
        """Copies of graphs side by side.

        Args:
            owners: int64 [V], of which graph each is.
            flips: int64 [V, B], made in each.
        """
        sizes = self.sizes[owners]
        ends = sizes.cumsum(0)
        starts = torch.cat([ends.new_zeros(1), ends])
        num_nodes = int(starts[-1])
        nodes = _ranges(self.starts[owners], sizes)
        codes = self.edges.codes[_ranges(self.edge_starts[owners], self.edge_counts[owners])]
        shift = (starts[:-1] - self.starts[owners]).repeat_interleave(self.edge_counts[owners])
        clean_ends = self.edges.ends(codes) + shift
        clean = EdgeSet(clean_ends[0] * num_nodes + clean_ends[1], num_nodes)
        every = torch.arange(owners.numel(), device=owners.device)
        batch = every.repeat_interleave(sizes)
        copies = Copies(
            model=self.model.on_graphs(batch),
            x=self.x[nodes],
            clean=clean,
            edges=clean,
            starts=starts,
            batch=batch,
            labels=self.labels[owners],
        )
        _, pairs = copies.pairs(flips)
        return replace(copies, edges=clean.flipped(clean.encode(pairs)))

    def logits(self, owners: Tensor, flips: Tensor) -> Tensor:
        """float [V, c] of copies of graphs [V] with flips [V, B] made."""
        found = []
        for part in self.parts(owners):
            copies = self.copies(owners[part], flips[part])
            with torch.no_grad():
                found.append(copies.model(copies.x, copies.edge_index))
        return torch.cat(found) if found else self.x.new_empty((0, 1))


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of graphs for one pass.

    Attributes:
        model: bound to them.
        x: float32 [M, d].
        clean: edges before the flips.
        edges: and after them.
        starts: int64 [V + 1].
        batch: int64 [M], the copy that each node belongs to.
        labels: int64 [V].
    """

    model: GraphModel
    x: Tensor
    clean: EdgeSet
    edges: EdgeSet
    starts: Tensor
    batch: Tensor
    labels: Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """int64 [V]."""
        return self.starts.diff()

    @cached_property
    def edge_index(self) -> Tensor:
        """int64 [2, 2E], `edges` in order."""
        both = self.edges.edge_index()
        return both[:, in_order(both, self.edges.num_nodes)]

    @property
    def every(self) -> Tensor:
        """int64 [V], as targets."""
        return torch.arange(self.sizes.numel(), device=self.starts.device)

    def pairs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Which entries of codes [V, B] are pairs, bool [V, B], and these pairs int64 [2, m].

        The pairs are in the numbers of the copies' nodes, row by row.
        """
        given = codes >= 0
        rows = given.nonzero()[:, 0]
        own, sizes = codes[given], self.sizes[rows]
        return given, torch.stack([own // sizes, own % sizes]) + self.starts[rows]

    def local(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """The copy int64 [m] of each pair int64 [2, m], first < second, and its code [m] there."""
        rows = self.batch[pairs[0]]
        first, second = pairs - self.starts[rows]
        return rows, first * self.sizes[rows] + second


def graph_list(graph: Data, threat: Threat, model: DifferentiableModel) -> GraphList:
    """The graphs of a threat to graphs.

    Args:
        graph: `x` float32 [N, d], `edge_index` int64 [2, 2E], `y` int64 [G].
        threat: with `batch` and `edge_budgets`.
        model: bound to the batch.
    """
    device = graph.x.device
    budgets, starts = each_budget(threat)
    return GraphList(
        model=cast(GraphModel, model),
        x=graph.x,
        edges=edge_set(graph),
        starts=starts.to(device),
        labels=graph.y,
        budgets=budgets.to(device),
    )


def each_budget(threat: Threat) -> tuple[Tensor, Tensor]:
    """What may be changed in each graph that is a target, int64 [G], 0 in others; and the first
    node of each and the number of nodes, int64 [G + 1].

    Raises:
        ValueError: the threat is to nodes.
    """
    if threat.batch is None or threat.edge_budgets is None:
        raise ValueError("a threat without batch and edge_budgets is to nodes, not to graphs")
    batch, budgets = threat.batch, threat.edge_budgets.to(threat.batch.device)
    sizes = torch.bincount(batch, minlength=budgets.numel())
    is_target = torch.zeros_like(budgets, dtype=torch.bool)
    is_target[threat.targets.to(batch.device)] = True
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return torch.where(is_target, budgets, 0), starts


def in_order(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The order [e] of edges int64 [2, e] by row then column.

    Those of a graph stand together then, as in every PyG batch: models may count on that.
    """
    order: Tensor = (edge_index[0] * num_nodes + edge_index[1]).argsort()
    return order


def nothing(rows: int, width: int, like: Tensor) -> Tensor:
    """No flips, int64 [rows, width]."""
    return like.new_full((rows, width), -1, dtype=torch.int64)


def joined(flips: Tensor, more: Tensor) -> Tensor:
    """Flips [V, B] and more of them [V, m], which have to find room in B places."""
    every = torch.cat([flips, more], dim=1)
    order = (every < 0).to(torch.int8).argsort(dim=1, stable=True)
    return every.gather(1, order)[:, : flips.shape[1]]


def counts(flips: Tensor) -> Tensor:
    """int64 [V], flips in each row."""
    return (flips >= 0).sum(1)


def _ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """starts[0], starts[0] + 1, ... of the first length, and so on, one after the other."""
    before = lengths.cumsum(0) - lengths
    total = int(lengths.sum())
    every = torch.arange(total, device=starts.device)
    return every + (starts - before).repeat_interleave(lengths, output_size=total)
