"""Predictions of a perceptron, propagated by personalised PageRank, on PyG's APPNP.

Klicpera et al., "Predict then Propagate: Graph Neural Networks meet Personalized PageRank",
ICLR 2019, equation 4, with A^ as for the GCN:

    H = MLP(X),    Z_0 = H,    Z_{k+1} = (1 - alpha) A^ Z_k + alpha H

GRB's code mixes in the last step's own Z_k instead of H, and applies a ReLU to the logits; here we
follow the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from grb_check.models.published import architecture
from grb_check.models.reference.row_norms import row_norms


class APPNP(nn.Module):
    """Linear layers with ReLU and dropout between them, then the propagation.

    With `layer_norm` the rows before every linear layer are normalised, including the last one, as
    GRB's numbers of parameters show.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        k: steps of the propagation (default: 10, the paper and GRB).
        alpha: weight of the perceptron's output in each step (default: 0.01, GRB; the paper: 0.1).
        dropout: probability, between layers (default: 0.5, GRB Table 6).
        input_dropout: probability, on `x`; the paper has 0.5.
        layer_norm: whether rows are normalised.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64,),
        *,
        k: int = 10,
        alpha: float = 0.01,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = row_norms(sizes[:-1] if layer_norm else [], layers=len(sizes) - 1)
        # The paper also drops entries of A^, drawn independently in each step. PyG's `dropout`
        # drops from what the previous step left (seen in 2.8): after ten steps hardly any remain.
        self.propagation = pyg.APPNP(k, alpha)
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        h = self.input_dropout(x)
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            if number > 0:
                h = self.dropout(torch.relu(h))
            h = layer(norm(h))
        return cast(Tensor, self.propagation(h, edge_index, edge_weight))


def appnp(num_features: int, num_classes: int, dataset: str = "") -> APPNP:
    """Return an untrained APPNP with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return APPNP(num_features, num_classes, **architecture("APPNP", dataset))


def appnp_ln(num_features: int, num_classes: int, dataset: str = "") -> APPNP:
    """Return `appnp` with layer normalisation, GRB's APPNP+LN."""
    return APPNP(num_features, num_classes, **architecture("APPNP+LN", dataset), layer_norm=True)
