"""Many graphs as one union, and mini-batches cut out of it.

PyG's `DataLoader` makes one object for each graph and joins 64 of them for each step. Here all
graphs stay in one union, and a mini-batch is a selection of rows of its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.errors import DataError, count


@dataclass(frozen=True, eq=False)
class Graphs:
    """Graphs as one disconnected graph, with sorted edges.

    Attributes:
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge, sorted by row, then column.
        batch: int64 [N], the graph of each node, non-decreasing from 0.
        y: int64 [G], the class of each graph.
        sizes: int64 [G], the nodes of each graph, at least 1.
        nodes: int64 [N], the node of the set that each is; None if the set has no given edges.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor
    sizes: Tensor
    nodes: Tensor | None = None

    @property
    def count(self) -> int:
        """G."""
        return self.sizes.numel()

    @property
    def starts(self) -> Tensor:
        """int64 [G], the first node of each graph."""
        return self.sizes.cumsum(0) - self.sizes

    def picked(self, ids: Tensor) -> Graphs:
        """Return the graphs with these ids int64 [g], in that order."""
        sizes = self.sizes[ids]
        nodes = _runs(self.starts[ids], sizes)
        edge_counts = torch.bincount(self.batch[self.edge_index[0]], minlength=self.count)
        edges = _runs((edge_counts.cumsum(0) - edge_counts)[ids], edge_counts[ids])
        shifts = (sizes.cumsum(0) - sizes) - self.starts[ids]  # from old numbers of nodes to new
        return Graphs(
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges] + shifts.repeat_interleave(edge_counts[ids]),
            batch=torch.arange(ids.numel(), device=ids.device).repeat_interleave(sizes),
            y=self.y[ids],
            sizes=sizes,
            nodes=None if self.nodes is None else self.nodes[nodes],
        )

    def without(self, nodes: Tensor, edges: Tensor) -> Graphs:
        """Return the same graphs without some nodes and edges.

        Args:
            nodes: bool [N], True for nodes to keep; at least one of each graph.
            edges: bool [2E], True for edges to keep if both ends are kept; the same in both
                directions.
        """
        positions = nodes.cumsum(0) - 1
        both = edges & nodes[self.edge_index].all(dim=0)
        batch = self.batch[nodes]
        return Graphs(
            x=self.x[nodes],
            edge_index=positions[self.edge_index[:, both]],
            batch=batch,
            y=self.y,
            sizes=torch.bincount(batch, minlength=self.count),
            nodes=None if self.nodes is None else self.nodes[nodes],
        )


def graphs_of(data: Data, *, least: int = 2) -> Graphs:
    """Return the graphs of a PyG `Batch` with `x`, `edge_index`, `batch` and `y`.

    Raises:
        DataError: one of these is missing, or there are fewer than `least` graphs.
    """
    for name in ("x", "edge_index", "batch", "y"):
        if not isinstance(data.get(name), Tensor):
            raise DataError(
                f"data has no tensor {name}; give a torch_geometric.data.Batch of graphs with "
                f"x, edge_index, batch and y"
            )
    if data.y.numel() < least:
        raise DataError(
            f"data has {count(data.y.numel(), 'graph')}; training needs at least {least}"
        )
    num_nodes = data.x.shape[0]
    order = torch.argsort(data.edge_index[0] * num_nodes + data.edge_index[1])
    return Graphs(
        x=data.x,
        edge_index=data.edge_index[:, order],
        batch=data.batch,
        y=data.y,
        sizes=torch.bincount(data.batch, minlength=data.y.numel()),
        nodes=data.get("nodes"),
    )


def parts_of(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """Split ids int64 [G] into parts of at most `size` whose sizes differ by at most one.

    So there is no last part of a single graph, which a contrastive loss could compare with nothing.
    """
    return order.tensor_split(math.ceil(order.numel() / size))


def mini_batches(graphs: Graphs, size: int) -> Iterator[Graphs]:
    """Yield all graphs once, shuffled by torch's global generator, at most `size` at a time."""
    order = torch.randperm(graphs.count).to(graphs.y.device)
    for ids in parts_of(order, size):
        yield graphs.picked(ids)


def _runs(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return start, start + 1, ... for each start and length, concatenated."""
    ends = lengths.cumsum(0)
    total = int(ends[-1]) if ends.numel() else 0
    offsets = starts - (ends - lengths)
    return torch.arange(total, device=starts.device) + offsets.repeat_interleave(lengths)
