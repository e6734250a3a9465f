"""The graph convolutional network, GRB's raw GCN: reference and surrogate.

Kipf & Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017,
equations 2 and 8:

    H' = relu(A^ H W + b),    A^ = D^-1/2 (A + I) D^-1/2,    D the degrees of A + I
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from grb_check.sparse import csr_matrix

FALLBACK: Final = "grb-cora"  # whose hyper-parameters datasets get that GRB has none for


class GCN(nn.Module):
    """Graph convolutions with ReLU and dropout between them.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last; (64, 64, 64) makes four layers.
        dropout: probability, after the ReLU of every hidden layer (default: 0.5, GRB Table 6).
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)  # the paper's choice: Glorot & Bengio (2010)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        return self._layers(x, _weighted_propagation(edge_index, edge_weight, x.shape[0]))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """The map from features to logits with the normalised adjacency computed once."""
        matrix = _normalised_adjacency(edge_index, num_nodes)

        def propagate(h: Tensor) -> Tensor:
            return _times(h, matrix.to(h.dtype))

        return lambda x: self._layers(x, propagate)

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int
    ) -> Callable[[Tensor], Tensor]:
        """The map from features [count, d] of injected nodes to logits [N + count, num_classes].

        In evaluation mode. X W of the first layer is computed once for the existing nodes, whose
        features are most of the work of a step.

        Args:
            x: float [N, d], features of the existing nodes.
            edge_index: int64 [2, e], edges of the graph of N + count nodes.
            count: injected nodes.
        """
        matrix = _normalised_adjacency(edge_index, x.shape[0] + count)
        first, *others = self._linear()
        weight = first.weight.detach().T
        existing = x @ weight

        def logits(injected: Tensor) -> Tensor:
            h = _times(torch.cat([existing, injected @ weight]), matrix) + first.bias
            for layer in others:
                h = _convolve(layer, torch.relu(h), lambda h: _times(h, matrix))
            return h

        return logits

    def _layers(self, h: Tensor, propagate: Callable[[Tensor], Tensor]) -> Tensor:
        for number, layer in enumerate(self._linear()):
            if number > 0:
                h = self.dropout(torch.relu(h))
            h = _convolve(layer, h, propagate)
        return h

    def _linear(self) -> list[nn.Linear]:
        return cast("list[nn.Linear]", list(self.layers))


def _convolve(layer: nn.Linear, h: Tensor, propagate: Callable[[Tensor], Tensor]) -> Tensor:
    """A^ H W + b. As A^ (H W) = (A^ H) W, propagate whichever has fewer columns."""
    if layer.out_features <= layer.in_features:
        return propagate(h @ layer.weight.T) + layer.bias
    return cast(Tensor, layer(propagate(h)))


class _SymmetricProduct(torch.autograd.Function):
    """Sparse symmetric matrix times dense; being symmetric, it is its own gradient's matrix,
    which spares the transposition that torch's own backward makes on every call."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _times(gradient, ctx.matrix), None


def _times(dense: Tensor, matrix: Tensor) -> Tensor:
    return cast(Tensor, _SymmetricProduct.apply(dense, matrix))  # type: ignore[no-untyped-call]


def _normalised_adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """A^ as sparse CSR float32 [num_nodes, num_nodes]."""
    loops = torch.arange(num_nodes, device=edge_index.device)
    rows, columns = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
    scale = torch.bincount(rows, minlength=num_nodes).float().rsqrt()
    return csr_matrix(rows, columns, scale[rows] * scale[columns], num_nodes)


def _weighted_propagation(
    edge_index: Tensor, edge_weight: Tensor, num_nodes: int
) -> Callable[[Tensor], Tensor]:
    """H -> A^ H from a list of edges, differentiable in their weights."""
    source, target = edge_index
    degrees = torch.ones(num_nodes, dtype=edge_weight.dtype, device=edge_weight.device)
    degrees = degrees.index_add(0, target, edge_weight)
    # A relaxed weight may be negative: a node without positive degree passes nothing on.
    positive = degrees > 0
    scale = torch.where(positive, degrees.where(positive, degrees.new_ones(())).rsqrt(), 0.0)
    entries = (scale[source] * edge_weight * scale[target]).unsqueeze(1)  # [e, 1]
    loops = (scale * scale).unsqueeze(1)  # [num_nodes, 1]
    return lambda h: (loops * h).index_add(0, target, entries * h[source])


def gcn(num_features: int, num_classes: int, dataset: str = "") -> GCN:
    """An untrained GCN with GRB's published hyper-parameters for the dataset (Tables 6 to 10).

    Datasets that GRB does not have get those of grb-cora.
    """
    published = hyper_parameters(dataset)
    return GCN(num_features, num_classes, published["hidden_sizes"], dropout=published["dropout"])


def hyper_parameters(dataset: str) -> dict[str, Any]:
    """The published row of the GCN for a dataset, or that of grb-cora."""
    text = resources.files("grb_check").joinpath("published/models.json").read_text("utf-8")
    rows = json.loads(text)["datasets"]
    row: dict[str, Any] = rows.get(dataset, rows[FALLBACK])["GCN"]
    return row
