"""Edges that an attack on targets may remove, and what it has to leave."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.pair_ranges import mask_of


def edges_at(graph: Data, targets: Tensor) -> Tensor:
    """Edges with a target end, int64 [2, m], first < second, on the CPU."""
    edges: Tensor = graph.edge_index.cpu()
    is_target = mask_of(targets, graph.num_nodes)
    keep = (edges[0] < edges[1]) & (is_target[edges[0]] | is_target[edges[1]])
    return edges[:, keep]


def degrees_of(graph: Data) -> Tensor:
    """Number of edges at each node, int64 [N], on the CPU."""
    return torch.bincount(graph.edge_index[0].cpu(), minlength=graph.num_nodes)


def removable(edges: Tensor, degrees: Tensor, *, isolate: bool) -> Tensor:
    """Which edges can go when they are taken in this order: bool [m].

    Args:
        edges: int64 [2, m], distinct, the most wanted first.
        degrees: int64 [N], of the clean graph.
        isolate: whether a node may lose its last edge. If not, an edge is passed over when one of
            its ends has no other left by then.
    """
    if isolate:
        return torch.ones(edges.shape[1], dtype=torch.bool)
    return within_capacity(edges, degrees - 1)


def within_capacity(pairs: Tensor, capacity: Tensor) -> Tensor:
    """Which pairs are taken in this order when each node has room for a number of them: bool [m].

    A pair is passed over when one of its ends has no room left by then.

    Args:
        pairs: int64 [2, m].
        capacity: int64 [N].
    """
    room = capacity.clone()
    found = torch.zeros(pairs.shape[1], dtype=torch.bool)
    undecided = (room[pairs] > 0).all(0).nonzero().squeeze(1)  # in order
    # Each round decides the first of these at least: taken are those which find room even if all
    # undecided ones before them are taken, passed over those with an end that has none.
    while undecided.numel():
        ends = pairs[:, undecided]
        taken = (_earlier_at(ends) < room[ends]).all(0)
        found[undecided[taken]] = True
        room -= torch.bincount(ends[:, taken].flatten(), minlength=room.numel())
        undecided = undecided[~taken & (room[ends] > 0).all(0)]
    return found


def _earlier_at(ends: Tensor) -> Tensor:
    """int64 [2, m]: at each end of each pair, how many earlier pairs have that end, too."""
    flat = ends.T.flatten()  # both ends of the first pair, of the second, ...
    grouped, order = flat.sort(stable=True)
    starts = torch.searchsorted(grouped, grouped)
    earlier = torch.empty_like(flat)
    earlier[order] = torch.arange(flat.numel()) - starts
    return earlier.reshape(-1, 2).T


def shortfall(used: int, budget: int, reason: str) -> tuple[str, ...]:
    """The note on unused budget; none where all is used."""
    return (f"{used} of {budget} edge changes used: {reason}",) if used < budget else ()
