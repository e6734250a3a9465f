"""Predictions of a perceptron, spread by personalised PageRank, on PyG's APPNP.

Klicpera et al., "Predict then Propagate: Graph Neural Networks meet Personalized PageRank",
ICLR 2019, equation 4, with A^ as for the GCN:

    H = MLP(X),    Z_0 = H,    Z_{k+1} = (1 - alpha) A^ Z_k + alpha H

GRB's code mixes in the last step's own Z_k instead of H, and has a ReLU on the logits; here it is
the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from grb_check.models.published import hyper_parameters
from grb_check.models.reference.row_norms import row_norms


class APPNP(nn.Module):
    """Linear layers with ReLU and dropout between them, then the propagation.

    With `layer_norm` the rows before every linear layer are normalised, the last one's too: they
    have no propagation between them, and GRB's numbers of parameters count it.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        k: steps of the propagation (default: 10, the paper and GRB).
        alpha: how much of the perceptron's answer comes back in each step (default: 0.01, GRB; the
            paper has 0.1).
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
        # The paper also drops entries of A^ anew in each step. PyG's `dropout` drops what is left
        # of them after the step before (seen in 2.8): after ten steps hardly one remains.
        self.propagation = pyg.APPNP(k, alpha)
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes].

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
    """An untrained APPNP with GRB's published hyper-parameters for the dataset (Tables 6 to 10).

    Datasets that GRB does not have get those of grb-cora.
    """
    row = hyper_parameters("APPNP", dataset)
    return APPNP(
        num_features,
        num_classes,
        row["hidden_sizes"],
        k=row["k"],
        alpha=row["alpha"],
        dropout=row["dropout"],
    )


def appnp_ln(num_features: int, num_classes: int, dataset: str = "") -> APPNP:
    """`appnp` with layer normalisation, GRB's APPNP+LN."""
    row = hyper_parameters("APPNP+LN", dataset)
    return APPNP(
        num_features,
        num_classes,
        row["hidden_sizes"],
        k=row["k"],
        alpha=row["alpha"],
        dropout=row["dropout"],
        layer_norm=True,
    )
