"""Random views of one graph: GraphCL's augmentations.

You et al., "Graph Contrastive Learning with Augmentations", NeurIPS 2020, Table 1. Random numbers
are from torch's global generator. Edges are given and returned in both directions, int64 [2, 2E].
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
        nodes: int64 [n], ascending, the remaining nodes of the graph.
        edge_index: int64 [2, 2F], as positions in `nodes`.
        masked: bool [n], True for nodes whose features are all masked.
    """

    nodes: Tensor
    edge_index: Tensor
    masked: Tensor


Augmentation = Callable[[Tensor, int, float], View]


def shuffled(rows: Tensor) -> Tensor:
    """Return the rows [n, h] in a random order."""
    return rows[torch.randperm(rows.shape[0]).to(rows.device)]


def without_nodes(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """Return the graph without this share of its nodes, rounded down."""
    order = torch.randperm(num_nodes).to(edge_index.device)
    return _among(order[int(rate * num_nodes) :], edge_index, num_nodes)


def with_changed_edges(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """Return the graph with this share of its edges changed: half of them removed, half added.

    As in the authors' code. A pair that is drawn twice, or is an edge already, adds nothing.
    """
    forth = edge_index[:, edge_index[0] < edge_index[1]]
    changed = int(rate * forth.shape[1] / 2)
    retained = forth[:, torch.randperm(forth.shape[1]).to(forth.device)[changed:]]
    drawn = torch.randint(num_nodes, (2, changed)).to(forth.device)
    drawn = drawn[:, drawn[0] != drawn[1]]
    every = torch.arange(num_nodes, device=edge_index.device)
    edges = coalesce(torch.cat([retained, retained.flip(0), drawn, drawn.flip(0)], dim=1))
    return View(every, edges, _none(every))


def with_masked_nodes(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """Return the graph with the features of this share of its nodes, rounded down, masked."""
    every = torch.arange(num_nodes, device=edge_index.device)
    masked = _none(every)
    masked[torch.randperm(num_nodes)[: int(rate * num_nodes)].to(masked.device)] = True
    return View(every, edge_index, masked)


def random_subgraph(edge_index: Tensor, num_nodes: int, rate: float) -> View:
    """Return the graph without this share of its nodes, rounded down, connected if possible.

    It grows from a random node: edges get random lengths, and the nearest nodes are kept.
    Unreachable nodes come last, so that a start in a small component does not give a tiny view.
    """
    centre = int(torch.randint(num_nodes, ()))
    lengths = torch.rand(edge_index.shape[1]).double() + 1e-9  # to scipy, 0 means no edge
    ends = tuple(edge_index.cpu().numpy())
    graph = sp.csr_matrix((lengths.numpy(), ends), shape=(num_nodes, num_nodes))
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
    """Return the subgraph of these nodes, given in any order."""
    nodes = nodes.sort().values
    edges, _ = subgraph(nodes, edge_index, relabel_nodes=True, num_nodes=num_nodes)
    return View(nodes, edges, _none(nodes))


def _none(nodes: Tensor) -> Tensor:
    return torch.zeros_like(nodes, dtype=torch.bool)
