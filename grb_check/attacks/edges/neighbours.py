"""The neighbours of each node, for attacks that look at one node after another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data


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
        places = torch.arange(int(counts.sum()), device=nodes.device)
        return self.nodes[places + (starts - before).repeat_interleave(counts)], counts


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
