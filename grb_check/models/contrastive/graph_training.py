"""Training on sets of graphs: mini-batches cut out of the union of all graphs, and the loops.

PyG's `DataLoader` makes one object for each graph and joins 64 of them for each step. Here all
graphs stay in one union, and a mini-batch is a choice of rows of its tensors.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.errors import DataError, ModelError
from grb_check.models.contrastive.set_settings import SetSettings
from grb_check.training.nodes import TrainingRun, accuracy_and_loss


class GraphFit(Protocol):
    """A supervised training on graphs, see `grb_check.SelfTrained`."""

    def __call__(self, data: Data, validation: Data | None = None) -> TrainingRun: ...


@dataclass(frozen=True, eq=False)
class Graphs:
    """Graphs side by side, their edges in order.

    Attributes:
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge, sorted by row, then column.
        batch: int64 [N], the graph of each node, rising from 0.
        y: int64 [G], the class of each graph.
        sizes: int64 [G], the nodes of each graph, at least 1.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor
    sizes: Tensor

    @property
    def count(self) -> int:
        """G."""
        return self.sizes.numel()

    @property
    def starts(self) -> Tensor:
        """int64 [G], the first node of each graph."""
        return self.sizes.cumsum(0) - self.sizes

    def picked(self, ids: Tensor) -> Graphs:
        """Those of some ids int64 [g], in that order."""
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
        )

    def without(self, nodes: Tensor, edges: Tensor) -> Graphs:
        """The same graphs without some nodes and edges.

        Args:
            nodes: bool [N], which stay; at least one of each graph.
            edges: bool [2E], which stay, if both their ends do; both directions alike.
        """
        places = nodes.cumsum(0) - 1
        both = edges & nodes[self.edge_index].all(dim=0)
        batch = self.batch[nodes]
        return Graphs(
            x=self.x[nodes],
            edge_index=places[self.edge_index[:, both]],
            batch=batch,
            y=self.y,
            sizes=torch.bincount(batch, minlength=self.count),
        )


def graphs_of(data: Data, *, least: int = 2) -> Graphs:
    """The graphs of a PyG `Batch` with `x`, `edge_index`, `batch` and `y`.

    Raises:
        DataError: it lacks one of these, or holds fewer than `least` graphs.
    """
    for name in ("x", "edge_index", "batch", "y"):
        if not isinstance(data.get(name), Tensor):
            raise DataError(
                f"data has no tensor {name}; needed is a torch_geometric.data.Batch of graphs with "
                f"x, edge_index, batch and y"
            )
    if data.y.numel() < least:
        raise DataError(f"data has {data.y.numel()} graphs; training needs {least} and more")
    num_nodes = data.x.shape[0]
    order = torch.argsort(data.edge_index[0] * num_nodes + data.edge_index[1])
    return Graphs(
        x=data.x,
        edge_index=data.edge_index[:, order],
        batch=data.batch,
        y=data.y,
        sizes=torch.bincount(data.batch, minlength=data.y.numel()),
    )


def parts_of(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """An order of ids int64 [G] in parts of at most `size`, whose sizes differ by one at most.

    A last part of a single graph would have no other to be told from.
    """
    return order.tensor_split(math.ceil(order.numel() / size))


def mini_batches(graphs: Graphs, size: int) -> Iterator[Graphs]:
    """All graphs once, in an order from torch's global state, at most `size` at a time."""
    order = torch.randperm(graphs.count).to(graphs.y.device)
    for ids in parts_of(order, size):
        yield graphs.picked(ids)


def classifier_fit(module: nn.Module, settings: SetSettings) -> GraphFit:
    """A `fit` for `grb_check.SelfTrained`: cross-entropy, Adam, mini-batches.

    Args:
        module: called as `(x, edge_index, batch)`; gives logits float [G, num_classes].

    Returns:
        From the training graphs, and the validation graphs if there are any, to how it went; with
        validation graphs the module is left in the state of its most accurate epoch, of equally
        accurate ones that with the lowest loss. It raises DataError for graphs that `graphs_of`
        refuses and ModelError for a loss that is not finite.
    """

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        graphs = graphs_of(data)
        held_out = None if validation is None else graphs_of(validation, least=1)
        optimizer = torch.optim.Adam(module.parameters(), lr=settings.lr)
        best_epoch, best, best_state = 0, (-math.inf, -math.inf), module.state_dict()
        for epoch in range(1, settings.epochs + 1):
            module.train()
            for part in mini_batches(graphs, settings.batch_size):
                logits = module(part.x, part.edge_index, part.batch)
                descend_once(optimizer, F.cross_entropy(logits, part.y))
            module.eval()
            if held_out is None and epoch < settings.epochs:
                continue
            score = _score(module, graphs if held_out is None else held_out, settings)
            if score > best:
                best_epoch, best = epoch, score
                best_state = copy.deepcopy(module.state_dict())
        module.load_state_dict(best_state)
        return TrainingRun(settings.epochs, best_epoch, best[0])

    return fit


def descend_on(
    modules: nn.Module, data: Data, settings: SetSettings, loss_of: Callable[[Graphs], Tensor]
) -> list[float]:
    """Train modules without labels on mini-batches, and leave them in evaluation mode.

    Args:
        modules: what is trained, such as an encoder and what its loss needs.
        loss_of: of a mini-batch, differentiable.

    Returns:
        The mean loss of each epoch.

    Raises:
        DataError: `data` is no batch of at least two graphs.
        ModelError: the loss is not finite.
    """
    graphs = graphs_of(data)
    optimizer = torch.optim.Adam(modules.parameters(), lr=settings.lr)
    modules.train()
    means = []
    for _ in range(settings.epochs):
        total = 0.0
        for part in mini_batches(graphs, settings.batch_size):
            total += part.count * descend_once(optimizer, loss_of(part))
        means.append(total / graphs.count)
    modules.eval()
    return means


def descend_once(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """One step of the parameters that an optimizer has, and of no others; the loss before it.

    Raises:
        ModelError: the loss is not finite.
    """
    value = float(loss.detach())
    if not math.isfinite(value):
        raise ModelError(f"the training loss is {value}; is the learning rate too high?")
    optimizer.zero_grad()
    moved = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    torch.autograd.backward(loss, inputs=moved)
    optimizer.step()
    return value


def _score(module: nn.Module, graphs: Graphs, settings: SetSettings) -> tuple[float, float]:
    """Accuracy, and the negative of the mean loss; in evaluation mode."""
    right = total = 0.0
    everything = torch.arange(graphs.count, device=graphs.y.device)
    with torch.no_grad():
        for ids in parts_of(everything, 4 * settings.batch_size):
            part = graphs.picked(ids)
            logits = module(part.x, part.edge_index, part.batch)
            accuracy, loss = accuracy_and_loss(logits, part.y)
            right += part.count * accuracy
            total += part.count * loss
    return right / graphs.count, -total / graphs.count


def _runs(starts: Tensor, lengths: Tensor) -> Tensor:
    """The numbers start, start + 1, ... of each length, one run after the other."""
    ends = lengths.cumsum(0)
    total = int(ends[-1]) if ends.numel() else 0
    offsets = starts - (ends - lengths)
    return torch.arange(total, device=starts.device) + offsets.repeat_interleave(lengths)
