"""PyG's four models of two layers of 64, as factories for `--grb-model` and `leaderboard`."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch_geometric.nn import models


def gat(num_features: int, num_classes: int) -> nn.Module:
    """GAT with four heads."""
    return _of(models.GAT, num_features, num_classes, heads=4)


def gcn(num_features: int, num_classes: int) -> nn.Module:
    """GCN."""
    return _of(models.GCN, num_features, num_classes)


def gin(num_features: int, num_classes: int) -> nn.Module:
    """GIN."""
    return _of(models.GIN, num_features, num_classes)


def sage(num_features: int, num_classes: int) -> nn.Module:
    """GraphSAGE with the mean."""
    return _of(models.GraphSAGE, num_features, num_classes)


def _of(
    kind: Callable[..., nn.Module], num_features: int, num_classes: int, **others: int
) -> nn.Module:
    return kind(num_features, 64, 2, num_classes, dropout=0.5, **others)
