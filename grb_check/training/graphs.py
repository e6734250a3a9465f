"""The training loop for classifiers of graphs: mini-batches, early stopping."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.datasets.views import training_view, validation_view
from grb_check.training.graph_unions import Graphs, graphs_of, mini_batches
from grb_check.training.nodes import TrainingRun, TrainingSettings, accuracy_and_loss, descend
from grb_check.victims.adapter import Adapter
from grb_check.victims.checks import DIVERGED, check_output

BATCH_SIZE: Final = 64  # graphs
EPOCHS: Final = 100
PATIENCE: Final = 20
LEAST_STEPS: Final = 500  # for sets with only a few mini-batches per epoch
LEARNING_RATE: Final = 0.005


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
        known = dataset.given_edges_of(part)
        bound = replace(adapter, batch=part.batch, given_edges=known)
        return check_output(
            bound(part.x, part.edge_index),
            name=adapter.name,
            called=adapter.convention,
            rows=bound.rows(part.x.shape[0]),
            columns=dataset.num_classes,
            one_for=bound.one_for,
            advice=DIVERGED,
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
