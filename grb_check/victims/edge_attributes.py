"""Attributes of edges for graphs whose edges change: those of the data, and one for new edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class EdgeAttributes:
    """Attributes of the edges of a graph, or of a union of graphs, under any change of its edges.

    Attributes:
        codes: int64 [e], row * num_nodes + column of each edge of the data, rising.
        values: float [e, k], the attributes of these edges.
        absent: float [k], the attributes of all other edges.
        num_nodes: of the data.
        nodes: int64 [n], the node of the data that each node of the present graph is; -1 for nodes
            that are not in the data.
    """

    codes: Tensor
    values: Tensor
    absent: Tensor
    num_nodes: int
    nodes: Tensor

    def of(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the attributes float [f, k] of edges int64 [2, f].

        In a graph of another number of nodes than `nodes`, such as a part of it on which a model is
        tried, every edge has the attributes `absent`.
        """
        if num_nodes != self.nodes.numel() or not self.codes.numel():
            return self.absent.expand(edge_index.shape[1], -1).to(edge_index.device)
        row, column = self.nodes.to(edge_index.device)[edge_index]
        there = (row >= 0) & (column >= 0)
        requested = row * self.num_nodes + column
        codes = self.codes.to(edge_index.device)
        positions = torch.searchsorted(codes, requested).clamp(max=codes.numel() - 1)
        known = ((codes[positions] == requested) & there)[:, None]
        values, absent = self.values.to(edge_index.device), self.absent.to(edge_index.device)
        return torch.where(known, values[positions], absent)

    def of_copies(self, nodes: Tensor) -> EdgeAttributes:
        """Return the attributes for copies of graphs.

        Args:
            nodes: int64 [m], the node of the present graph that each node of the copies is; -1 for
                nodes that it does not have.
        """
        known = self.nodes.to(nodes.device)[nodes]
        return replace(self, nodes=torch.where(nodes < 0, -1, known))


class Graph(Protocol):
    """A graph with features and edges, whose edges may have attributes."""

    x: Tensor
    edge_index: Tensor


def edge_attributes(graph: Graph | Data, absent: Tensor | None) -> EdgeAttributes | None:
    """Return the attributes of a graph's edges; None if they have none.

    Args:
        graph: `x`, `edge_index` int64 [2, e], and `edge_attr` float [e, k] if its edges have any.
        absent: float [k], of edges that the graph does not have.
    """
    values: Tensor | None = getattr(graph, "edge_attr", None)
    if values is None or absent is None:
        return None
    num_nodes = int(graph.x.shape[0])
    codes, order = (graph.edge_index[0] * num_nodes + graph.edge_index[1]).sort()
    nodes = torch.arange(num_nodes, device=graph.edge_index.device)
    return EdgeAttributes(codes, values[order], absent.to(values), num_nodes, nodes)
