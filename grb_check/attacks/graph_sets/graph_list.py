"""Graphs side by side, and copies of some of them with flips made, for one forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, budgets_and_starts, edge_set
from grb_check.attacks.protocol import DifferentiableModel, GraphModel
from grb_check.attacks.threat import Threat

_STEP: Final = -0x61C8864680B583EB  # 2^64 / golden ratio, as an int64
_FACTORS: Final = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_BITS: Final = 24  # of a float32
TOGETHER: Final = 150_000  # nodes plus directed edges in one pass, about 0.5 GB


def new_key(generator: torch.Generator) -> int:
    """Return a random key: draws under different keys are independent."""
    return int(torch.randint(2**62, (1,), generator=generator))


def uniform(key: int, *counters: Tensor) -> Tensor:
    """Return a float32 in [0, 1) for each combination of counters, int64 of shapes that broadcast.

    Each number is a hash of key and counters (that of SplitMix64, `Fast Splittable Pseudorandom
    Number Generators <https://doi.org/10.1145/2714064.2660195>`_, Steele et al. 2014), so that no
    draw depends on which graphs share a forward pass.
    """
    state = torch.tensor(key, device=counters[0].device)
    for counter in counters:
        state = _mixed(state + _STEP * (counter + 1))
    return _shifted(state, 64 - _BITS).to(torch.float32) / 2**_BITS


def _mixed(state: Tensor) -> Tensor:
    """Apply the finaliser of SplitMix64; products wrap around."""
    state = (state ^ _shifted(state, 30)) * _FACTORS[0]
    state = (state ^ _shifted(state, 27)) * _FACTORS[1]
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    mask: int = 2 ** (64 - bits) - 1
    return (state >> bits) & mask


@dataclass(frozen=True, eq=False)
class GraphList:
    """The graphs of one attack.

    Flips of several graphs are rows int64 [V, B] of codes first * n + second, first < second, where
    a graph's own n nodes are numbered from 0; -1 stands for no flip and comes last in a row.

    Attributes:
        model: the model under attack.
        x: float32 [N, d].
        edges: of all graphs, with all N nodes numbered.
        starts: int64 [G + 1], the first node of each graph, and N.
        labels: int64 [G], to move away from.
        budgets: int64 [G], 0 for graphs that are not targets.
    """

    model: GraphModel
    x: Tensor
    edges: EdgeSet
    starts: Tensor
    labels: Tensor
    budgets: Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """Number of nodes of each graph, int64 [G]."""
        return self.starts.diff()

    @cached_property
    def edge_starts(self) -> Tensor:
        """Index of each graph's first edge in `edges.codes`, and their number, int64 [G + 1]."""
        return torch.searchsorted(self.edges.codes, self.starts * self.edges.num_nodes)

    @cached_property
    def edge_counts(self) -> Tensor:
        """Number of edges of each graph, int64 [G]."""
        return self.edge_starts.diff()

    @cached_property
    def pair_counts(self) -> Tensor:
        """Number of pairs of nodes of each graph, int64 [G]."""
        return self.sizes * (self.sizes - 1) // 2

    def attackable(self) -> Tensor:
        """Return the graphs with a budget and at least one pair, int64 [a]."""
        return ((self.budgets > 0) & (self.pair_counts > 0)).nonzero().squeeze(1)

    def parts(self, owners: Tensor, extra: Tensor | int = 0) -> Iterator[Tensor]:
        """Divide copies of graphs into parts for one pass each; yields indices int64 [p], in order.

        Args:
            owners: int64 [V], the graph of each copy.
            extra: int64 [V], number of pairs with weights in addition to the edges.
        """
        return passes((self.sizes + 2 * self.edge_counts)[owners] + 2 * extra)

    def copies(self, owners: Tensor, flips: Tensor | None = None) -> Copies:
        """Return copies of graphs side by side.

        Args:
            owners: int64 [V], the graph of each copy.
            flips: int64 [V, B], made in each copy; none if not given.
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
            model=self.model.on_graphs(batch, nodes),
            x=self.x[nodes],
            clean=clean,
            edges=clean,
            starts=starts,
            batch=batch,
            labels=self.labels[owners],
        )
        if flips is None:
            return copies
        _, pairs = copies.pairs(flips)
        return replace(copies, edges=clean.flipped(clean.encode(pairs)))

    def logits(self, owners: Tensor, flips: Tensor) -> Tensor:
        """Return logits float [V, c] of copies of graphs [V] with flips [V, B] made."""
        result = []
        for part in self.parts(owners):
            copies = self.copies(owners[part], flips[part])
            with torch.no_grad():
                result.append(copies.model(copies.x, copies.edge_index))
        return torch.cat(result) if result else self.x.new_empty((0, 1))


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of graphs for one pass.

    Attributes:
        model: bound to them.
        x: float32 [M, d].
        clean: edges before the flips.
        edges: edges after the flips.
        starts: int64 [V + 1], the first node of each copy, and M.
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
        """Number of nodes of each copy, int64 [V]."""
        return self.starts.diff()

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of `edges`, int64 [2, 2E], in row-major order."""
        both = self.edges.edge_index()
        return both[:, row_major_order(both, self.edges.num_nodes)]

    @property
    def every(self) -> Tensor:
        """All copies, as targets, int64 [V]."""
        return torch.arange(self.sizes.numel(), device=self.starts.device)

    def pairs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return which entries of codes [V, B] are pairs, bool [V, B], and the pairs int64 [2, m].

        The pairs are of the copies' nodes, row by row.
        """
        given = codes >= 0
        rows = given.nonzero()[:, 0]
        given_codes, sizes = codes[given], self.sizes[rows]
        return given, torch.stack([given_codes // sizes, given_codes % sizes]) + self.starts[rows]

    def local(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the copy [m] of each pair int64 [2, m], first < second, and its code [m] there."""
        rows = self.batch[pairs[0]]
        first, second = pairs - self.starts[rows]
        return rows, first * self.sizes[rows] + second


def graph_list(graph: Data, threat: Threat, model: DifferentiableModel) -> GraphList:
    """Return the graphs of a threat to graphs.

    Args:
        graph: `x` float32 [N, d], `edge_index` int64 [2, 2E], `y` int64 [G].
        threat: with `batch` and `edge_budgets`.
        model: bound to the batch.
    """
    device = graph.x.device
    budgets, starts = budgets_and_starts(threat)
    return GraphList(
        model=cast(GraphModel, model),
        x=graph.x,
        edges=edge_set(graph),
        starts=starts.to(device),
        labels=graph.y,
        budgets=budgets.to(device),
    )


def passes(weights: Tensor) -> Iterator[Tensor]:
    """Divide graphs into parts for one pass each; yields indices int64 [p], in order.

    Args:
        weights: int64 [V], nodes plus directed edges of each graph.
    """
    first, total = 0, 0
    every = weights.tolist()
    for position, weight in enumerate(every):
        if total and total + weight > TOGETHER:
            yield torch.arange(first, position, device=weights.device)
            first, total = position, 0
        total += weight
    if every:
        yield torch.arange(first, len(every), device=weights.device)


def row_major_order(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the order [e] of edges int64 [2, e] by row and column.

    The edges of a graph are then contiguous, as in every PyG batch; models may rely on that.
    """
    order: Tensor = (edge_index[0] * num_nodes + edge_index[1]).argsort()
    return order


def no_flips(rows: int, width: int, like: Tensor) -> Tensor:
    """Return rows without flips, int64 [rows, width] of -1, on the device of `like`."""
    return like.new_full((rows, width), -1, dtype=torch.int64)


def append_flips(flips: Tensor, more: Tensor) -> Tensor:
    """Return flips [V, B] with more of them [V, m], which have to fit into the B places."""
    return packed(torch.cat([flips, more], dim=1))[:, : flips.shape[1]]


def packed(codes: Tensor) -> Tensor:
    """Return codes [V, m] with the -1 of each row moved to its end."""
    return codes.gather(1, (codes < 0).to(torch.int8).argsort(dim=1, stable=True))


def count_flips(flips: Tensor) -> Tensor:
    """Return the number of flips in each row, int64 [V]."""
    return (flips >= 0).sum(1)


def _ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return the concatenated ranges start, start + 1, ..., start + length - 1."""
    before = lengths.cumsum(0) - lengths
    total = int(lengths.sum())
    every = torch.arange(total, device=starts.device)
    return every + (starts - before).repeat_interleave(lengths, output_size=total)
