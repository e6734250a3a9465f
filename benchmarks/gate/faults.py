"""Ten planted faults: regressions that a team could make in an ordinary model.

Each loses at least 10 points more than every reference in a case of the suite `smoke`, as measured
over the repeats of the command `limits`. Other mistakes are none by that measure: see
docs/explanation/gate.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing

from benchmarks.gate.architectures import (
    HIDDEN,
    STEPS,
    Factory,
    Propagated,
    TwoLayers,
    gin,
    two,
)


class Loudest(MessagePassing):
    """Attention by the length of the neighbours' features: large features weigh most."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="sum")
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return rows float [num_nodes, outputs]."""
        weight = x.norm(dim=1, keepdim=True).clamp(max=20.0).exp()
        h = self.linear(x) * weight
        mixed: Tensor = (h + self.propagate(edge_index, x=h)) / (
            weight + self.propagate(edge_index, x=weight)
        )
        return mixed


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
    """Return a factory of that many layers of a kind, without normalisation or dropout."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        sizes = [num_features, *[HIDDEN] * (count - 1), num_classes]
        return Deep([layer(a, b) for a, b in pairwise(sizes)])

    return make


def largest(inputs: int, outputs: int) -> nn.Module:
    """Return a GraphSAGE layer that takes the largest entries of neighbours."""
    return pyg.SAGEConv(inputs, outputs, aggr="max")


def gcn_layers(model: Callable[[nn.Module, nn.Module], nn.Module]) -> Factory:
    """Return a factory of a model of two GCN layers."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return model(pyg.GCNConv(num_features, HIDDEN), pyg.GCNConv(HIDDEN, num_classes))

    return make


def without_restart(num_features: int, num_classes: int) -> nn.Module:
    """Return an APPNP whose PageRank has no restart, so that a node loses its own features."""
    module = Propagated(num_features, num_classes)
    module.propagate = pyg.APPNP(K=STEPS, alpha=0.0)
    return module


def far(num_features: int, num_classes: int) -> nn.Module:
    """Return an SGC of 16 propagations."""
    return pyg.SGConv(num_features, num_classes, K=16)


FAULTS: Final[dict[str, Factory]] = {
    "TAGCN without normalisation": two(pyg.TAGConv, normalize=False),
    "16 propagations": far,
    "APPNP without restart": without_restart,
    "three LEConv layers": deep(pyg.LEConv, 3),
    "four GIN layers": deep(gin, 4),
    "four GraphConv layers": deep(pyg.GraphConv, 4),
    "four layers of largest neighbours": deep(largest, 4),
    "long features weigh most": two(Loudest),
    "readout of all nodes": gcn_layers(Readout),
    "sum of all nodes": gcn_layers(Summed),
}
