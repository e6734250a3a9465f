"""Training of the models for sets of graphs, on mini-batches, with Adam."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.errors import ModelError
from grb_check.models.published import GraphSettings
from grb_check.training.graph_unions import Graphs, graphs_of, mini_batches, parts_of
from grb_check.training.module_state import state_restorer
from grb_check.training.nodes import TrainingRun, accuracy_and_loss


class GraphFit(Protocol):
    """The type of `fit` of a `grb_check.SelfTrained` that classifies graphs."""

    def __call__(self, data: Data, validation: Data | None = None) -> TrainingRun: ...


def classifier_fit(module: nn.Module, settings: GraphSettings) -> GraphFit:
    """Return a `fit` for `grb_check.SelfTrained`: cross-entropy, Adam, mini-batches.

    Args:
        module: called as `(x, edge_index, batch)`; returns logits float [G, num_classes].
        settings: learning rate, epochs and size of a mini-batch.

    Returns:
        A function of the training graphs and, if there are any, the validation graphs. With
        validation graphs it leaves the module in the state of the epoch with the highest validation
        accuracy, ties broken by the lowest loss. It raises DataError for graphs that `graphs_of`
        rejects and ModelError for a loss that is not finite.
    """

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        graphs = graphs_of(data)
        held_out = None if validation is None else graphs_of(validation, least=1)
        optimizer = torch.optim.Adam(module.parameters(), lr=settings.lr)
        best_epoch, best = 0, (-math.inf, -math.inf)
        restore: Callable[[], None] | None = None
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
                restore = state_restorer(module)
        if restore is not None:
            restore()
        return TrainingRun(settings.epochs, best_epoch, best[0])

    return fit


def descend_on(
    modules: nn.Module, data: Data, settings: GraphSettings, loss_of: Callable[[Graphs], Tensor]
) -> list[float]:
    """Train modules without labels on mini-batches, and leave them in evaluation mode.

    Args:
        modules: to train, such as an encoder and the modules of its loss.
        data: the training graphs.
        settings: learning rate, epochs and size of a mini-batch.
        loss_of: returns the differentiable loss of a mini-batch.

    Returns:
        The mean loss of each epoch.

    Raises:
        DataError: `data` is not a batch of at least two graphs.
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
    """Take one step of the parameters of an optimizer only, and return the loss before it.

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


def _score(module: nn.Module, graphs: Graphs, settings: GraphSettings) -> tuple[float, float]:
    """Return accuracy and negative mean loss, in evaluation mode."""
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
