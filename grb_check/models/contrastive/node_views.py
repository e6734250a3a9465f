"""Random views of one graph: GraphCL's augmentations.

You et al., "Graph Contrastive Learning with Augmentations", NeurIPS 2020, Table 1. What is drawn
comes from torch's global state. Edges are given in both directions, int64 [2, 2E], and changed so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra
from torch import Tensor
from torch_geometric.utils import coalesce, subgraph


@dataclass(frozen=True, eq=False)
class View:
    """A changed graph.

    Attributes:
        nodes: int64 [n], ascending, the nodes of the graph that are left.
        edge_index: int64 [2, 2F], in places of `nodes`.
        masked: bool [n], whose features are all masked.
    """

    nodes: Tensor
    edge_index: Tensor
    masked: Tensor


Augmentation = Callable[[Tensor, int, float], View]


def shuffled(rows: Tensor) -> Tensor:
    """The rows [n, h] in a random order."""
    return rows[torch.randperm(rows.shape[0]).to(rows.device)]


def without_nodes(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """The graph without this share of its nodes, rounded down."""
    order = torch.randperm(num_nodes).to(edge_index.device)
    return _among(order[int(rate * num_nodes) :], edge_index, num_nodes)


def with_changed_edges(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """The graph in which half this share of the edges is gone, and as many pairs are new edges.

    As in the authors' code: half of what changes is removed, half added. A pair that is drawn
    twice, or is an edge, adds nothing.
    """
    forth = edge_index[:, edge_index[0] < edge_index[1]]
    changed = int(rate * forth.shape[1] / 2)
    kept = forth[:, torch.randperm(forth.shape[1]).to(forth.device)[changed:]]
    drawn = torch.randint(num_nodes, (2, changed)).to(forth.device)
    drawn = drawn[:, drawn[0] != drawn[1]]
    every = torch.arange(num_nodes, device=edge_index.device)
    edges = coalesce(torch.cat([kept, kept.flip(0), drawn, drawn.flip(0)], dim=1))
    return View(every, edges, _none(every))


def with_masked_nodes(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """The graph with the features of this share of its nodes, rounded down, masked."""
    every = torch.arange(num_nodes, device=edge_index.device)
    masked = _none(every)
    masked[torch.randperm(num_nodes)[: int(rate * num_nodes)].to(masked.device)] = True
    return View(every, edge_index, masked)


def random_subgraph(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """All but this share of the nodes, rounded down, which hang together where they can.

    It grows from a random node: edges have random lengths, and the nearest nodes are taken. Those
    that cannot be reached come last, so that a start in a small component leaves no tiny view.
    """
    centre = int(torch.randint(num_nodes, ()))
    lengths = torch.rand(edge_index.shape[1]).double() + 1e-9  # scipy takes 0 for no edge
    places = tuple(edge_index.cpu().numpy())
    graph = sp.csr_matrix((lengths.numpy(), places), shape=(num_nodes, num_nodes))
    distances = dijkstra(graph, directed=False, indices=centre)
    order = np.lexsort((torch.rand(num_nodes).numpy(), distances))
    nearest = torch.from_numpy(order[: num_nodes - int(rate * num_nodes)])
    return _among(nearest.to(edge_index.device), edge_index, num_nodes)


AUGMENTATIONS: Final[Mapping[str, Augmentation]] = MappingProxyType(
    {
        "nodes": without_nodes,
        "edges": with_changed_edges,
        "features": with_masked_nodes,
        "subgraph": random_subgraph,
    }
)


def _among(nodes: Tensor, edge_index: Tensor, num_nodes: int) -> View:
    """The graph of these nodes, in any order, alone."""
    nodes = nodes.sort().values
    edges, _ = subgraph(nodes, edge_index, relabel_nodes=True, num_nodes=num_nodes)
    return View(nodes, edges, _none(nodes))


def _none(nodes: Tensor) -> Tensor:
    return torch.zeros_like(nodes, dtype=torch.bool)
