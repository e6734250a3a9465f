"""Flips within the budgets of nodes, and removals that leave each node an edge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import degrees_of
from grb_check.attacks.threat import Threat


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
    room, taken = capacity.tolist(), []
    # One by one: what is decided together takes as many rounds as pairs follow from one another.
    for position, (first, second) in enumerate(zip(*pairs.tolist(), strict=True)):
        if room[first] > 0 and room[second] > 0:
            room[first] -= 1
            room[second] -= 1
            taken.append(position)
    result = torch.zeros(pairs.shape[1], dtype=torch.bool)
    result[taken] = True
    return result


def reason_within(threat: Threat, reason: str) -> str:
    """Return the reason of a note on unused budget, which is another one with local budgets."""
    return reason if threat.local_budgets is None else "nodes have no room for other changes"


def shortfall(used: int, budget: int, reason: str) -> tuple[str, ...]:
    """Return a note on unused budget, or none if all is used."""
    return (f"{used} of {budget} edge changes used: {reason}",) if used < budget else ()
