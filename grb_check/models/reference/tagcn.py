"""The topology adaptive graph convolutional network, on PyG's TAGConv.

Du et al., "Topology Adaptive Graph Convolutional Networks", 2017, equation 3:

    H' = relu(sum_{j = 0..k} (D^-1/2 A D^-1/2)^j H W_j + b)

A has no self-loops, as in the paper (GRB's has): a node's own row is the term j = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import TAGConv

from grb_check.models.published import architecture
from grb_check.models.reference.row_norms import row_norms


class TAGCN(nn.Module):
    """Polynomials of the adjacency with ReLU and dropout between them.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        k: hops of each layer (default: 2, the paper and GRB).
        dropout: probability, between layers (default: 0.5, GRB Table 6).
        input_dropout: probability, on `x`.
        layer_norm: whether rows are normalised before each layer but the last.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        k: int = 2,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        self.layers = nn.ModuleList(TAGConv(a, b, K=k) for a, b in pairwise(sizes))
        normalised = sizes[: max(1, len(hidden_sizes))] if layer_norm else []
        self.norms = row_norms(normalised, layers=len(self.layers))
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        h: Tensor = self.input_dropout(x)
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            if number > 0:
                h = self.dropout(torch.relu(h))
            h = layer(norm(h), edge_index, edge_weight)
        return h


def tagcn(num_features: int, num_classes: int, dataset: str = "") -> TAGCN:
    """Return an untrained TAGCN with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return TAGCN(num_features, num_classes, **architecture("TAGCN", dataset))


def tagcn_ln(num_features: int, num_classes: int, dataset: str = "") -> TAGCN:
    """Return `tagcn` with layer normalisation, GRB's TAGCN+LN."""
    return TAGCN(num_features, num_classes, **architecture("TAGCN+LN", dataset), layer_norm=True)
