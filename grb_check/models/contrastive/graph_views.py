"""Random views of many graphs at once: GraphCL's augmentations.

You et al., "Graph Contrastive Learning with Augmentations", NeurIPS 2020, Table 1. Each function
works on the union of all graphs without a loop over them, and draws from torch's global generator.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import torch
from torch import Tensor
from torch_geometric.nn import global_mean_pool

from grb_check.training.graph_unions import Graphs

NODES, EDGES, FEATURES, SUBGRAPH = range(4)
KINDS: Final = 4


def random_view(graphs: Graphs, ratio: float) -> Graphs:
    """Return the graphs, each changed by one of the four augmentations, drawn at random."""
    return view_of_kinds(graphs, torch.randint(KINDS, (graphs.count,)).to(graphs.y.device), ratio)


def view_of_kinds(graphs: Graphs, kinds: Tensor, ratio: float) -> Graphs:
    """Return the graphs, each changed by a given augmentation.

    Args:
        graphs: to change.
        kinds: int64 [G], `NODES`, `EDGES`, `FEATURES` or `SUBGRAPH` for each graph.
        ratio: share of nodes or edges that are dropped or masked, 0 to 1.
    """
    of_nodes = kinds[graphs.batch]
    of_edges = of_nodes[graphs.edge_index[0]]
    nodes = torch.where(of_nodes == NODES, nodes_kept(graphs, ratio), True)
    nodes &= torch.where(of_nodes == SUBGRAPH, subgraph_kept(graphs, ratio), True)
    edges = torch.where(of_edges == EDGES, edges_kept(graphs, ratio), True)
    masked = (of_nodes == FEATURES).unsqueeze(1)
    x = torch.where(masked, features_masked(graphs, ratio), graphs.x)
    return dataclasses.replace(graphs, x=x).without(nodes, edges)


def nodes_kept(graphs: Graphs, ratio: float) -> Tensor:
    """Return bool [N]: all but this share of each graph's nodes, rounded down; at least one."""
    return (
        _ranks(graphs, torch.rand(graphs.batch.shape)) >= _share(graphs.sizes, ratio)[graphs.batch]
    )


def edges_kept(graphs: Graphs, ratio: float) -> Tensor:
    """Return bool [2E]: each edge with probability 1 - ratio, the same in both directions."""
    forth = graphs.edge_index[0] < graphs.edge_index[1]
    drawn = torch.rand(graphs.edge_index.shape[1]).to(graphs.x.device) >= ratio
    return torch.where(forth, drawn, drawn[reverse_edges(graphs)])


def features_masked(graphs: Graphs, ratio: float) -> Tensor:
    """Return float [N, d]: this share of each graph's nodes, rounded down, has its mean features.

    You et al. write of masking attributes of vertices; their code inserts the mean, as here.
    """
    means = global_mean_pool(graphs.x, graphs.batch)[graphs.batch]
    return torch.where(nodes_kept(graphs, ratio).unsqueeze(1), graphs.x, means)


def subgraph_kept(graphs: Graphs, ratio: float) -> Tensor:
    """Return bool [N]: as many nodes of each graph as `nodes_kept` keeps, connected if possible.

    Edges get random lengths, and the nodes nearest to a random one are kept: connected like the
    nodes that the paper's random walk visits, but of an exact number. Unreachable nodes come last.
    """
    distances = _distances_from(graphs, _first_of_each(graphs))
    counts = graphs.sizes - _share(graphs.sizes, ratio)
    return _ranks(graphs, distances) < counts[graphs.batch]


def reverse_edges(graphs: Graphs) -> Tensor:
    """Return int64 [2E]: the position of each edge's other direction."""
    source, target = graphs.edge_index
    # Sorted by target, then source, the k-th edge is the reverse of the k-th edge as given.
    return torch.argsort(target * graphs.batch.numel() + source)


def _share(sizes: Tensor, ratio: float) -> Tensor:
    """Return int64 [G]: this share of each graph's nodes, at most all but one."""
    return torch.minimum((ratio * sizes).long(), sizes - 1)


def _ranks(graphs: Graphs, keys: Tensor) -> Tensor:
    """Return int64 [N]: the rank of each node's key [N] within its graph, from 0."""
    order = torch.argsort(keys.to(graphs.batch.device), stable=True)
    order = order[torch.argsort(graphs.batch[order], stable=True)]
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(order.numel(), device=order.device)
    return ranks - graphs.starts[graphs.batch]


def _first_of_each(graphs: Graphs) -> Tensor:
    """Return int64 [G]: a random node of each graph."""
    drawn = torch.rand(graphs.count).to(graphs.sizes.device)
    return graphs.starts + torch.minimum((drawn * graphs.sizes).long(), graphs.sizes - 1)


def _distances_from(graphs: Graphs, nodes: Tensor) -> Tensor:
    """Return float [N]: the distance from these nodes, over edges of random lengths."""
    source, target = graphs.edge_index
    lengths = torch.rand(source.shape).to(graphs.x.device)
    distances = torch.full(graphs.batch.shape, torch.inf, device=graphs.x.device)
    distances[nodes] = 0.0
    while True:
        arrivals = distances[source] + lengths
        shorter = distances.scatter_reduce(0, target, arrivals, "amin")
        if torch.equal(shorter, distances):
            return distances
        distances = shorter
