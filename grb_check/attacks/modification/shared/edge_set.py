"""Undirected edges: as sorted numbers, so that flips are set operations, or as a scipy matrix."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, Threat


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


def mask_of(nodes: Tensor, num_nodes: int) -> Tensor:
    """Return which nodes are among `nodes`, bool [num_nodes] on the CPU."""
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[nodes.cpu()] = True
    return mask


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Neighbours of N nodes, one after another.

    Attributes:
        nodes: int64 [2E], the neighbours of node 0, of node 1, ..., each in ascending order.
        starts: int64 [N + 1], of each node's neighbours among them.
    """

    nodes: Tensor
    starts: Tensor

    def of(self, node: int) -> Tensor:
        """Return the neighbours of a node, int64 [degree]."""
        start, end = self.starts[node : node + 2].tolist()
        return self.nodes[start:end]

    def of_all(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the neighbours of several nodes [m] one after another, and how many each has."""
        starts = self.starts[nodes]
        counts = self.starts[nodes + 1] - starts
        before = counts.cumsum(0) - counts
        positions = torch.arange(int(counts.sum()), device=nodes.device)
        return self.nodes[positions + (starts - before).repeat_interleave(counts)], counts


def neighbours_in(graph: Data) -> Neighbours:
    """Return the neighbours in a graph with `edge_index` [2, 2E] in both directions."""
    row, column = graph.edge_index
    order = (row * graph.num_nodes + column).argsort()
    counts = torch.bincount(row, minlength=graph.num_nodes)
    return Neighbours(column[order], torch.cat([counts.new_zeros(1), counts.cumsum(0)]))


def on_cpu(graph: Data) -> Data:
    """Return the graph with its tensors on the CPU; the given one is not modified.

    Attacks on one node after another work on small tensors, for which a GPU is slower.
    """
    return Data(x=graph.x.cpu(), edge_index=graph.edge_index.cpu(), y=graph.y.cpu())


def edges_at(graph: Data, targets: Tensor) -> Tensor:
    """Return the edges with a target end, int64 [2, m], first < second, on the CPU."""
    edges: Tensor = graph.edge_index.cpu()
    is_target = mask_of(targets, graph.num_nodes)
    keep = (edges[0] < edges[1]) & (is_target[edges[0]] | is_target[edges[1]])
    return edges[:, keep]


def degrees_of(graph: Data) -> Tensor:
    """Return the number of edges at each node, int64 [N], on the CPU."""
    return torch.bincount(graph.edge_index[0].cpu(), minlength=graph.num_nodes)


def removable(edges: Tensor, degrees: Tensor, *, isolate: bool) -> Tensor:
    """Return which edges can be removed when they are taken in this order, bool [m].

    Args:
        edges: int64 [2, m], distinct, the most wanted first.
        degrees: int64 [N], of the clean graph.
        isolate: whether a node may lose its last edge. If not, an edge is skipped if one of its
            ends has no other edge left.
    """
    if isolate:
        return torch.ones(edges.shape[1], dtype=torch.bool)
    return within_capacity(edges, degrees - 1)


def local_budgets(graph: Data, share: float) -> Tensor:
    r"""Return the local budgets :math:`\lfloor s d_v \rfloor` of nodes of degree d, int64 [N].

    The local constraint of `Adversarial Training for Graph Neural Networks: Pitfalls, Solutions,
    and New Directions <https://arxiv.org/abs/2306.15427>`_ (Gosch et al. 2023), whose share s is
    0.5. Rounded down, so that at any share below 1 a node of degree 1 keeps its edge and gets no
    other.

    Args:
        graph: `edge_index` int64 [2, 2E] in both directions.
        share: above 0 and at most 1.
    """
    exact = Fraction(str(share))
    degrees = degrees_of(graph)
    most = int(degrees.max()) if degrees.numel() else 0
    return torch.tensor([int(exact * degree) for degree in range(most + 1)])[degrees]


def room_for_removals(graph: Data, threat: Threat, *, isolate: bool) -> Tensor:
    """Return how many edges may be removed at each node, int64 [N] on the CPU.

    Args:
        graph: clean graph.
        threat: may have local budgets.
        isolate: whether a node may lose its last edge.
    """
    degrees = degrees_of(graph)
    room = degrees if isolate else degrees - 1
    return room if threat.local_budgets is None else room.minimum(threat.local_budgets.cpu())


def open_nodes(threat: Threat, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the targets int64 [t] and all nodes, bool [N], that may have flips; on the CPU."""
    targets = threat.targets.cpu()
    if threat.local_budgets is None:
        return targets, torch.ones(num_nodes, dtype=torch.bool)
    is_open = threat.local_budgets.cpu() > 0
    return targets[is_open[targets]], is_open


def room_beside(threat: Threat, pairs: Tensor) -> Tensor | None:
    """Return how many flips each node has room for beside these pairs int64 [2, m], int64 [N].

    None if the threat has no local budgets. On the CPU.
    """
    if threat.local_budgets is None:
        return None
    budgets = threat.local_budgets.cpu()
    return budgets - torch.bincount(pairs.flatten(), minlength=budgets.numel())


def within_capacity(pairs: Tensor, capacity: Tensor) -> Tensor:
    """Return which pairs are taken in this order if nodes have room for a number of them, bool [m].

    A pair is skipped if one of its ends has no room left.

    Args:
        pairs: int64 [2, m].
        capacity: int64 [N], pairs that each node has room for.
    """
    room = capacity.clone()
    result = torch.zeros(pairs.shape[1], dtype=torch.bool)
    undecided = (room[pairs] > 0).all(0).nonzero().squeeze(1)  # in order
    # Each round decides at least the first of these: it takes those that have room even if all
    # undecided ones before them are taken, and skips those with an end that has no room.
    while undecided.numel():
        ends = pairs[:, undecided]
        taken = (_earlier_at(ends) < room[ends]).all(0)
        result[undecided[taken]] = True
        room -= torch.bincount(ends[:, taken].flatten(), minlength=room.numel())
        undecided = undecided[~taken & (room[ends] > 0).all(0)]
    return result


def _earlier_at(ends: Tensor) -> Tensor:
    """Return for each end of each pair how many earlier pairs have it, int64 [2, m]."""
    flat = ends.T.flatten()  # both ends of the first pair, of the second, ...
    grouped, order = flat.sort(stable=True)
    starts = torch.searchsorted(grouped, grouped)
    earlier = torch.empty_like(flat)
    earlier[order] = torch.arange(flat.numel()) - starts
    return earlier.reshape(-1, 2).T


def reason_within(threat: Threat, reason: str) -> str:
    """Return the reason of a note on unused budget, which is another one with local budgets."""
    return reason if threat.local_budgets is None else "nodes have no room for other changes"


def shortfall(used: int, budget: int, reason: str) -> tuple[str, ...]:
    """Return a note on unused budget, or none if all is used."""
    return (f"{used} of {budget} edge changes used: {reason}",) if used < budget else ()


@dataclass(frozen=True, eq=False)
class EdgeSet:
    """Undirected edges of a graph of N nodes, without self-loops.

    Attributes:
        codes: int64 [E], ascending: first * N + second for each edge, first < second.
        num_nodes: N.
    """

    codes: Tensor
    num_nodes: int

    def has(self, codes: Tensor) -> Tensor:
        """Return which of the codes [m] are edges, bool [m]."""
        positions = torch.searchsorted(self.codes, codes)
        inside = positions < self.codes.numel()
        result = (
            self.codes[positions.clamp(max=max(0, self.codes.numel() - 1))] if inside.any() else 0
        )
        return inside & (result == codes)

    def flipped(self, flips: Tensor) -> EdgeSet:
        """Return the edges after flipping distinct codes [m]: edges are removed, others added."""
        codes, counts = torch.unique(torch.cat([self.codes, flips]), return_counts=True)
        return EdgeSet(codes[counts == 1], self.num_nodes)

    def edge_index(self) -> Tensor:
        """Return int64 [2, 2E], both directions of each edge."""
        ends = self.ends(self.codes)
        return torch.cat([ends, ends.flip(0)], dim=1)

    def ends(self, codes: Tensor) -> Tensor:
        """Return the pairs int64 [2, m] of codes [m], first < second."""
        return torch.stack([codes // self.num_nodes, codes % self.num_nodes])

    def encode(self, pairs: Tensor) -> Tensor:
        """Return the codes [m] of pairs int64 [2, m], whose ends may be in any order."""
        first, second = pairs
        return torch.minimum(first, second) * self.num_nodes + torch.maximum(first, second)

    def degrees(self) -> Tensor:
        """Return the number of edges at each node, int64 [N]."""
        return torch.bincount(self.ends(self.codes).flatten(), minlength=self.num_nodes)

    def partly_flipped(self, flips: Tensor, weights: Tensor) -> tuple[EdgeSet, Tensor]:
        """Return these edges together with relaxed flips, and the weight of each, float.

        Args:
            flips: distinct codes int64 [m].
            weights: float [m], 0 to 1, how much each is flipped: the weight of an added pair, and
                the part that a removed edge loses of its weight 1.
        """
        present = self.has(flips)
        codes = torch.cat([self.codes, flips[~present]]).sort().values
        edge_weights = torch.ones_like(codes, dtype=weights.dtype)
        changed = torch.where(present, 1 - weights, weights)
        edge_weights[torch.searchsorted(codes, flips)] = changed
        return EdgeSet(codes, self.num_nodes), edge_weights

    def perturbation(self, flips: Tensor, notes: tuple[str, ...] = ()) -> Perturbation:
        """Return the perturbation that flips distinct codes [m]."""
        flips = flips.sort().values
        present = self.has(flips)
        return Perturbation(
            added_edges=self.ends(flips[~present]).cpu(),
            removed_edges=self.ends(flips[present]).cpu(),
            notes=notes,
        )


def edge_set(graph: Data) -> EdgeSet:
    """Return the edges of a graph with `edge_index` [2, 2E] in both directions."""
    first, second = graph.edge_index
    codes = (first * graph.num_nodes + second)[first < second]
    return EdgeSet(codes.sort().values, graph.num_nodes)


def adjacency_of(graph: Data) -> Any:
    """Return the symmetric adjacency as a sparse CSR array float64 [N, N] of ones."""
    row, column = graph.edge_index.cpu().numpy()
    size = (graph.num_nodes, graph.num_nodes)
    return sp.csr_array((np.ones(row.size), (row, column)), shape=size)


def budgets_and_starts(threat: Threat) -> tuple[Tensor, Tensor]:
    """Return the budget of each graph, int64 [G], 0 unless it is a target; and the first node of
    each graph and the number of nodes, int64 [G + 1].

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
