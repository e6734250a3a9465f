"""A small model on the tiny dataset, and its outcome without pytest."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

import grb_check


class Net(torch.nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv = GCNConv(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


def outcome(tiny: Path, model: object = Net, **more: object) -> grb_check.Outcome:
    """The outcome of one repeat of a random injection, unless more says otherwise."""
    given = {"difficulty": "easy", "attack": "injection/rnd", "repeats": 1, **more}
    return grb_check.evaluate(model, dataset=str(tiny), **given)  # type: ignore[arg-type]
