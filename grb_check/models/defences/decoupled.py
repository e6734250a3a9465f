"""Models that propagate the logits of a perceptron, as APPNP does (Klicpera et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from grb_check.models.defences.edge_differences import Incidence, WeightedEdges


class Propagate(Protocol):
    """Propagates the logits float [N, c] of a perceptron, without parameters."""

    def __call__(self, h: Tensor, edges: WeightedEdges, *, training: bool = False) -> Tensor: ...


class Decoupled(nn.Module):
    """A perceptron with dropout before its layers, and a propagation of its logits.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        propagate: of the logits.
        dropout: probability, after the ReLU of every hidden layer.
        input_dropout: probability, on `x`.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int],
        propagate: Propagate,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        parts: list[nn.Module] = [nn.Dropout(input_dropout)]
        for inputs, outputs in pairwise(sizes):
            parts += [nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(dropout)]
        self.perceptron = nn.Sequential(*parts[:-2])
        self.propagate = propagate

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        incidence = Incidence.of(edge_index, x.shape[0], x.dtype)
        return self._through(x, incidence.weighted(edge_weight))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the edges prepared once."""
        dtype = next(self.parameters()).dtype
        edges = Incidence.of(edge_index, num_nodes, dtype).weighted(None)
        return lambda x: self._through(x, edges)

    def _through(self, x: Tensor, edges: WeightedEdges) -> Tensor:
        return self.propagate(cast(Tensor, self.perceptron(x)), edges, training=self.training)


def on_ball(rows: Tensor, radius: float) -> Tensor:
    """Return each row of float [n, d], or the nearest to it of at most this length, above 0."""
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    nearest: Tensor = rows * (radius / lengths.clamp(min=radius))
    return nearest
