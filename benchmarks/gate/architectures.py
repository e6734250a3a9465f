"""Ordinary architectures: PyG's four basic models, and 22 convolutions in two layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.utils import degree

HIDDEN: Final = 64
DROPOUT: Final = 0.5
HEADS: Final = 4
STEPS: Final = 10  # of APPNP

Factory = Callable[..., nn.Module]


class TwoLayers(nn.Module):
    """Two convolutions with ReLU and dropout between them."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.dropout(self.first(x, edge_index).relu())
        logits: Tensor = self.second(h, edge_index)
        return logits


class WithInitial(nn.Module):
    """Two convolutions of hidden rows and the first hidden rows, between two linear layers."""

    def __init__(self, inputs: int, classes: int, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)
        self.layers = nn.ModuleList(make() for _ in range(2))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        first = self.dropout(self.before(x).relu())
        h = first
        for layer in self.layers:
            h = self.dropout(layer(h, first, edge_index).relu())
        logits: Tensor = self.after(h)
        return logits


class Propagated(nn.Module):
    """A perceptron of each node, then personalised PageRank."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.rows = nn.Sequential(
            nn.Linear(num_features, HIDDEN),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN, num_classes),
        )
        self.propagate = pyg.APPNP(K=STEPS, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        logits: Tensor = self.propagate(self.rows(x), edge_index)
        return logits


def two(layer: Callable[..., nn.Module], **settings: Any) -> Factory:
    """Return a factory of two layers of a kind."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return TwoLayers(
            layer(num_features, HIDDEN, **settings), layer(HIDDEN, num_classes, **settings)
        )

    return make


def heads(layer: Callable[..., nn.Module]) -> Factory:
    """Return a factory of two attention layers, of which the last averages its heads."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return TwoLayers(
            layer(num_features, HIDDEN // HEADS, heads=HEADS),
            layer(HIDDEN, num_classes, heads=HEADS, concat=False),
        )

    return make


def basic(model: Callable[..., nn.Module]) -> Factory:
    """Return a factory of a basic model of PyG with two layers."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return model(num_features, HIDDEN, 2, num_classes, dropout=DROPOUT)

    return make


def perceptron(inputs: int, outputs: int) -> nn.Module:
    """Return the perceptron of a GIN layer."""
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))


def gin(inputs: int, outputs: int) -> nn.Module:
    """Return a GIN layer."""
    return pyg.GINConv(perceptron(inputs, outputs))


def sgc(num_features: int, num_classes: int) -> nn.Module:
    """Return an untrained SGC, which is one layer."""
    return pyg.SGConv(num_features, num_classes, K=2)


def pna(num_features: int, num_classes: int, data: Data) -> nn.Module:
    """Return an untrained PNA."""
    degrees = degree(data.edge_index[1], data.num_nodes, dtype=torch.long).bincount()
    settings = {
        "aggregators": ["mean", "min", "max", "std"],
        "scalers": ["identity", "amplification", "attenuation"],
        "deg": degrees,
    }
    return TwoLayers(
        pyg.PNAConv(num_features, HIDDEN, **settings), pyg.PNAConv(HIDDEN, num_classes, **settings)
    )


def gcn2(num_features: int, num_classes: int) -> nn.Module:
    """Return an untrained GCNII."""
    return WithInitial(num_features, num_classes, lambda: pyg.GCN2Conv(HIDDEN, alpha=0.1))


def fa(num_features: int, num_classes: int) -> nn.Module:
    """Return an untrained FAGCN."""
    return WithInitial(num_features, num_classes, lambda: pyg.FAConv(HIDDEN))


ARCHITECTURES: Final[dict[str, Factory]] = {
    "models.GCN": basic(pyg.models.GCN),
    "models.GraphSAGE": basic(pyg.models.GraphSAGE),
    "models.GIN": basic(pyg.models.GIN),
    "models.GAT": basic(pyg.models.GAT),
    "GCNConv": two(pyg.GCNConv),
    "SAGEConv mean": two(pyg.SAGEConv, aggr="mean"),
    "SAGEConv max": two(pyg.SAGEConv, aggr="max"),
    "GraphConv": two(pyg.GraphConv),
    "GATConv": heads(pyg.GATConv),
    "GATv2Conv": heads(pyg.GATv2Conv),
    "TransformerConv": heads(pyg.TransformerConv),
    "SuperGATConv": heads(pyg.SuperGATConv),
    "TAGConv": two(pyg.TAGConv),
    "ARMAConv": two(pyg.ARMAConv),
    "SGConv": sgc,
    "APPNP": Propagated,
    "GCN2Conv": gcn2,
    "FAConv": fa,
    "GINConv": two(gin),
    "EGConv": two(pyg.EGConv, num_heads=1),
    "PNAConv": pna,
    "ChebConv": two(pyg.ChebConv, K=2),
    "LEConv": two(pyg.LEConv),
    "ClusterGCNConv": two(pyg.ClusterGCNConv),
    "GENConv": two(pyg.GENConv),
    "ResGatedGraphConv": two(pyg.ResGatedGraphConv),
}
