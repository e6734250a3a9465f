"""The training loop for classifiers of graphs: mini-batches, early stopping.

Many graphs as one union, and mini-batches cut out of it.

PyG's `DataLoader` makes one object for each graph and joins 64 of them for each step. Here all
graphs stay in one union, and a mini-batch is a selection of rows of its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import DataError, count
from grb_check.training.nodes import TrainingRun, TrainingSettings, accuracy_and_loss, descend
from grb_check.victims.checks import check_output
from grb_check.victims.conventions import Adapter
from grb_check.victims.edge_attributes import edge_attributes

BATCH_SIZE: Final = 64  # graphs
EPOCHS: Final = 100
PATIENCE: Final = 20
LEAST_STEPS: Final = 500  # for sets with only a few mini-batches per epoch
LEARNING_RATE: Final = 0.005


@dataclass(frozen=True, eq=False)
class Graphs:
    """Graphs as one disconnected graph, with sorted edges.

    Attributes:
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge, sorted by row, then column.
        batch: int64 [N], the graph of each node, non-decreasing from 0.
        y: int64 [G], the class of each graph.
        sizes: int64 [G], the nodes of each graph, at least 1.
        edge_attr: float [2E, k]; None if edges have no attributes.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor
    sizes: Tensor
    edge_attr: Tensor | None = None

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
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
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
            edge_attr=None if self.edge_attr is None else self.edge_attr[both],
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
        edge_attr=data.edge_attr[order] if "edge_attr" in data else None,
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


def train_on_graphs(
    adapter: Adapter, dataset: GraphDataset, *, seed: int, device: torch.device
) -> TrainingRun:
    """Train a module in place and leave it in its best epoch's state, in evaluation mode.

    Cross-entropy on mini-batches of `BATCH_SIZE` training graphs, Adam. The best of `EPOCHS` epochs
    is that of the highest validation accuracy; training ends when neither that nor the validation
    loss has improved for `PATIENCE` epochs. Small sets have more epochs.

    Args:
        adapter: the module, on the device, its lazy parameters initialised.
        dataset: to train on.
        seed: of the global random states, such as for shuffling and dropout.
        device: of the module.

    Returns:
        The course of the training, with mini-batches in place of epochs.

    Raises:
        ModelError: the module raises, returns an invalid output, or cannot be trained by gradients.
    """
    graphs = graphs_of(training_view(dataset).to(device))
    held_out = validation_view(dataset).to(device)
    steps = math.ceil(graphs.count / BATCH_SIZE)
    settings = TrainingSettings(
        max_epochs=max(LEAST_STEPS, EPOCHS * steps),
        patience=max(LEAST_STEPS // 4, PATIENCE * steps),
        lr=LEARNING_RATE,
        warmup_epochs=steps,
    )
    parts = _endless(graphs)

    def logits_of(part: Graphs | Data) -> Tensor:
        attributes = edge_attributes(part, dataset.new_edge_attr)
        bound = replace(adapter, batch=part.batch, edge_attributes=attributes)
        return check_output(
            bound(part.x, part.edge_index),
            name=adapter.name,
            called=adapter.convention,
            rows=bound.rows(part.x.shape[0]),
            columns=dataset.num_classes,
            one_for=bound.one_for,
        )

    def loss_of() -> Tensor:
        part = next(parts)
        return F.cross_entropy(logits_of(part), part.y)

    def measure() -> tuple[float, float]:
        with torch.no_grad():
            return accuracy_and_loss(logits_of(held_out), held_out.y)

    return descend(adapter, loss_of, measure, settings, seed=seed, measure_every=steps)


def _endless(graphs: Graphs) -> Iterator[Graphs]:
    while True:
        yield from mini_batches(graphs, BATCH_SIZE)
