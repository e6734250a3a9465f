"""Tiny models with a training of their own, for leaderboards."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from grb_check.errors import ModelError


def on_fit(module: nn.Module) -> None:
    """Called by each training; tests put something else here."""


class Tiny(nn.Module):
    """One layer, and a few steps of training."""

    def __init__(self, num_features: int, num_classes: int, steps: int) -> None:
        super().__init__()
        self.layer = GCNConv(num_features, num_classes)
        self.steps = steps

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.layer(x, edge_index)
        return found

    def fit(self, data: Data) -> None:
        on_fit(self)
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        for _ in range(self.steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(self(data.x, data.edge_index), data.y).backward()
            optimizer.step()


def good(num_features: int, num_classes: int) -> Tiny:
    return Tiny(num_features, num_classes, 20)


def poor(num_features: int, num_classes: int) -> Tiny:
    return Tiny(num_features, num_classes, 1)


def broken(num_features: int, num_classes: int) -> Tiny:
    raise ModelError("this one is broken")
