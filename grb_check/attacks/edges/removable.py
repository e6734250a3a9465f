"""Edges that an attack may remove, and the edges that nodes have to keep."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.pair_ranges import mask_of


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


def within_capacity(pairs: Tensor, capacity: Tensor) -> Tensor:
    """Return which pairs are taken in this order if nodes have room for a number of them, bool [m].

    A pair is skipped if one of its ends has no room left.

    Args:
        pairs: int64 [2, m].
        capacity: int64 [N], pairs that each node has room for.
    """
    room = capacity.clone()
    found = torch.zeros(pairs.shape[1], dtype=torch.bool)
    undecided = (room[pairs] > 0).all(0).nonzero().squeeze(1)  # in order
    # Each round decides at least the first of these: it takes those that have room even if all
    # undecided ones before them are taken, and skips those with an end that has no room.
    while undecided.numel():
        ends = pairs[:, undecided]
        taken = (_earlier_at(ends) < room[ends]).all(0)
        found[undecided[taken]] = True
        room -= torch.bincount(ends[:, taken].flatten(), minlength=room.numel())
        undecided = undecided[~taken & (room[ends] > 0).all(0)]
    return found


def _earlier_at(ends: Tensor) -> Tensor:
    """Return for each end of each pair how many earlier pairs have it, int64 [2, m]."""
    flat = ends.T.flatten()  # both ends of the first pair, of the second, ...
    grouped, order = flat.sort(stable=True)
    starts = torch.searchsorted(grouped, grouped)
    earlier = torch.empty_like(flat)
    earlier[order] = torch.arange(flat.numel()) - starts
    return earlier.reshape(-1, 2).T


def shortfall(used: int, budget: int, reason: str) -> tuple[str, ...]:
    """Return a note on unused budget, or none if all is used."""
    return (f"{used} of {budget} edge changes used: {reason}",) if used < budget else ()
