"""Planted faults: regressions that a team could make in an ordinary model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree

from benchmarks.gate.architectures import (
    HIDDEN,
    STEPS,
    Factory,
    Propagated,
    TwoLayers,
    gin,
    two,
)
from grb_check.victims.wrappers import SelfTrained

EPOCHS: Final = 1000


class Mapped(nn.Module):
    """A model of features that a function of features and edges has changed."""

    def __init__(self, model: nn.Module, change: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.change = model, change

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        logits: Tensor = self.model(self.change(x, edge_index), edge_index)
        return logits


class Activated(TwoLayers):
    """Two convolutions with another activation between them."""

    def __init__(
        self, first: nn.Module, second: nn.Module, activation: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(first, second)
        self.activation = activation

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.dropout(self.activation(self.first(x, edge_index)))
        logits: Tensor = self.second(h, edge_index)
        return logits


class Scored(MessagePassing):
    """Attention whose scores weigh messages as they are, without a softmax."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="sum")
        self.linear = nn.Linear(inputs, outputs)
        self.score = nn.Linear(2 * outputs, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        h = self.linear(x)
        return h + self.propagate(edge_index, x=h)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        score: Tensor = self.score(torch.cat([x_i, x_j], dim=1)).exp()
        return score * x_j


class Neighbours(MessagePassing):
    """The largest entries of neighbours, without the node itself."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="max")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        return self.propagate(edge_index, x=self.linear(x))


class SourceNormalised(MessagePassing):
    """Sums of neighbours, of which each is divided by its own degree."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="sum")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        count = degree(edge_index[0], x.shape[0]) + 1
        h = self.linear(x) / count[:, None]
        return h + self.propagate(edge_index, x=h)


class Dissimilar(MessagePassing):
    """Attention with the sign of its similarity reversed: unlike neighbours weigh most."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr=pyg.aggr.SumAggregation())
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        unit = F.normalize(x, dim=1)
        near = (unit[edge_index[0]] * unit[edge_index[1]]).sum(dim=1)
        weight = (-5.0 * near).exp()
        total = torch.zeros_like(x[:, 0]).index_add(0, edge_index[1], weight)
        h = self.linear(x)
        mixed = self.propagate(edge_index, x=h, weight=weight)
        return (h + mixed) / (1.0 + total)[:, None]

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight[:, None] * x_j


class SenderDegree(MessagePassing):
    """A mean of neighbours and the node itself, weighted by their degrees."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="sum")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        count = (degree(edge_index[1], x.shape[0]) + 1)[:, None]
        h = self.linear(x) * count
        return (h + self.propagate(edge_index, x=h)) / (count + self.propagate(edge_index, x=count))


class Degrees(nn.Module):
    """A GCN of features and, as one more, the degree as it is."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.model = two(pyg.GCNConv)(num_features + 1, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        count = degree(edge_index[1], x.shape[0])[:, None]
        logits: Tensor = self.model(torch.cat([x, count], dim=1), edge_index)
        return logits


class Loudest(MessagePassing):
    """Attention by the length of the neighbours' features: large features weigh most."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="sum")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        weight = x.norm(dim=1, keepdim=True).clamp(max=20.0).exp()
        h = self.linear(x) * weight
        return (h + self.propagate(edge_index, x=h)) / (
            weight + self.propagate(edge_index, x=weight)
        )


class BatchStatistics(nn.Module):
    """Two convolutions with batch normalisation that uses the statistics of the graph it is given,
    in evaluation too."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = (
            pyg.GCNConv(num_features, HIDDEN),
            pyg.GCNConv(HIDDEN, num_classes),
        )
        self.norm = nn.BatchNorm1d(num_features, track_running_stats=False)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.dropout(self.first(self.norm(x), edge_index).relu())
        logits: Tensor = self.second(h, edge_index)
        return logits


class Rescaled(TwoLayers):
    """Two convolutions; hidden rows are divided by the largest entry over all nodes."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.first(x, edge_index).relu()
        h = self.dropout(10.0 * h / h.max().clamp(min=1e-6))
        logits: Tensor = self.second(h, edge_index)
        return logits


class Summed(TwoLayers):
    """Two convolutions; the sum over all nodes is added to every node."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.first(x, edge_index).relu()
        h = self.dropout(h + 0.01 * h.sum(dim=0))
        logits: Tensor = self.second(h, edge_index)
        return logits


class Readout(TwoLayers):
    """Two convolutions; the largest entries over all nodes are added to every node."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.first(x, edge_index).relu()
        h = self.dropout(h + h.max(dim=0).values)
        logits: Tensor = self.second(h, edge_index)
        return logits


def mapped(change: Callable[[Tensor, Tensor], Tensor]) -> Factory:
    """Return a factory of a GCN behind a function of its input."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return Mapped(two(pyg.GCNConv)(num_features, num_classes), change)

    return make


def activated(activation: Callable[[Tensor], Tensor]) -> Factory:
    """Return a factory of a GCN with another activation."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return Activated(
            pyg.GCNConv(num_features, HIDDEN), pyg.GCNConv(HIDDEN, num_classes), activation
        )

    return make


def overtrained(num_features: int, num_classes: int) -> SelfTrained:
    """Return a GCN that trains for `EPOCHS`, without dropout, validation or weight decay."""
    module = two(pyg.GCNConv)(num_features, num_classes)
    module.dropout = nn.Dropout(0.0)

    def fit(data: Data) -> None:
        optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            logits = module(data.x, data.edge_index)[data.train_mask]
            torch.autograd.backward(F.cross_entropy(logits, data.y[data.train_mask]))
            optimizer.step()

    return SelfTrained(module, fit)


class Deep(nn.Module):
    """Several convolutions with ReLU between them."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        for number, layer in enumerate(self.layers):
            x = layer(x.relu() if number else x, edge_index)
        return x


def deep(layer: Callable[[int, int], nn.Module], count: int) -> Factory:
    """Return a factory of that many layers of a kind, without normalisation."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        sizes = [num_features, *[HIDDEN] * (count - 1), num_classes]
        return Deep([layer(a, b) for a, b in pairwise(sizes)])

    return make


def without_restart(num_features: int, num_classes: int) -> nn.Module:
    """Return an APPNP whose PageRank has no restart, so that a node loses its own features."""
    module = Propagated(num_features, num_classes)
    module.propagate = pyg.APPNP(K=STEPS, alpha=0.0)
    return module


def far(num_features: int, num_classes: int) -> nn.Module:
    """Return an SGC of 16 propagations."""
    return pyg.SGConv(num_features, num_classes, K=16)


def mapped_sum(num_features: int, num_classes: int) -> nn.Module:
    """Return sums of neighbours without normalisation, of features times 10."""
    return Mapped(two(pyg.GraphConv)(num_features, num_classes), lambda x, _: 10.0 * x)


FAULTS: Final[dict[str, Callable[..., object]]] = {
    "GCN without normalisation": two(pyg.GCNConv, normalize=False),
    "GraphSAGE with a sum": two(pyg.SAGEConv, aggr="sum"),
    "attention without softmax": two(Scored),
    "features times 10": mapped(lambda x, _: 10.0 * x),
    "features to the third power": mapped(lambda x, _: x**3),
    "exponentials of features": mapped(lambda x, _: (2.0 * x).exp()),
    "quadratic activation": activated(lambda h: h**2),
    "exponential activation": activated(torch.exp),
    "1000 epochs": overtrained,
    "divided by the other degree": two(SourceNormalised),
    "features times degree": mapped(
        lambda x, edges: x * (1 + degree(edges[1], x.shape[0]))[:, None]
    ),
    "statistics of the batch": BatchStatistics,
    "largest of neighbours alone": two(Neighbours),
    "GCN without self-loops": two(pyg.GCNConv, add_self_loops=False),
    "four GIN layers": deep(gin, 4),
    "four GraphConv layers": deep(pyg.GraphConv, 4),
    "three LEConv layers": deep(pyg.LEConv, 3),
    "four layers of largest neighbours": deep(lambda a, b: pyg.SAGEConv(a, b, aggr="max"), 4),
    "APPNP without restart": without_restart,
    "16 propagations": far,
    "unlike neighbours weigh most": two(Dissimilar),
    "weighted by the sender's degree": two(SenderDegree),
    "degree as a feature": Degrees,
    "long features weigh most": two(Loudest),
    "softmax aggregation, sharp": two(pyg.SAGEConv, aggr="softmax", aggr_kwargs={"t": 50.0}),
    "TAGCN without normalisation": two(pyg.TAGConv, normalize=False),
    "periodic activation": activated(lambda h: torch.sin(20.0 * h)),
    "deviation of neighbours": two(pyg.SAGEConv, aggr="std"),
    "neighbours alone": two(pyg.SAGEConv, root_weight=False),
    "sums of features times 10": mapped_sum,
    "divided by the largest entry": lambda num_features, num_classes: Rescaled(
        pyg.GCNConv(num_features, HIDDEN), pyg.GCNConv(HIDDEN, num_classes)
    ),
    "sum of all nodes": lambda num_features, num_classes: Summed(
        pyg.GCNConv(num_features, HIDDEN), pyg.GCNConv(HIDDEN, num_classes)
    ),
    "readout of all nodes": lambda num_features, num_classes: Readout(
        pyg.GCNConv(num_features, HIDDEN), pyg.GCNConv(HIDDEN, num_classes)
    ),
}
