"""Trainings under attack whose states are compared by how well they rank a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from grb_check.datasets.recall import Recall
from grb_check.datasets.views import training_view, validation_view
from grb_check.training.nodes import TrainingRun, score_and_loss


class HardlyAGraph(nn.Module):
    """No attack changes its figures, but it has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.graph = nn.Linear(8, 3), GCNConv(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits: Tensor = self.own(x) + 1e-6 * self.graph(x, edge_index, edge_weight)
        return logits


def check_ranked_states(train: Callable[[nn.Module, Data, Data], TrainingRun]) -> None:
    """Check that the score of a training is average precision, clean and under attack."""
    recall = Recall(positive=1, false_alarms=0.1)
    dataset = replace(community_dataset(), recall=recall)
    validation = validation_view(dataset)
    torch.manual_seed(0)
    model = HardlyAGraph()
    run = train(model, training_view(dataset), validation)
    with torch.no_grad():
        logits = model(validation.x, validation.edge_index)[validation.val_mask]
    truth = validation.y[validation.val_mask]
    expected, _ = score_and_loss(logits, truth, recall)
    assert run.accuracy == pytest.approx(expected)
    assert expected != pytest.approx(float((logits.argmax(1) == truth).float().mean()))
