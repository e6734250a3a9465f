"""The encoder of DGI, GraphCL and GCA: PyG's graph convolutions, each followed by a PReLU.

    H' = prelu(A^ H W + b),    A^ = D^-1/2 (A + I) D^-1/2,    D the degrees of A + I

Veličković et al., "Deep Graph Infomax", ICLR 2019, section 4.2; one slope for all columns of a
layer, as in their code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from grb_check.gradients.normalisation import Propagation
from grb_check.models.published import NodeSettings
from grb_check.training.nodes import TrainingRun, TrainingSettings, descend, drawn_seed
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN


def minimise(
    module: nn.Module,
    loss_of: Callable[[], Tensor],
    settings: NodeSettings,
    *,
    weight_decay: float = 0.0,
) -> TrainingRun:
    """Train a module in place, and leave it in the state with the lowest loss.

    Early stopping is by the contrastive loss, as in the code of DGI and of GraphCL: without labels
    there is no other figure.

    Args:
        module: to train; its name appears in errors.
        loss_of: called once per epoch; torch's global generator is seeded for it, by a seed drawn
            from that generator.
        settings: learning rate, epochs and patience.
        weight_decay: of all parameters.

    Raises:
        ModelError: the loss is not finite, or does not depend on any parameter.
    """
    adapter = Adapter(module, type(module).__name__, PLAIN)
    how = TrainingSettings(
        max_epochs=settings.epochs,
        patience=settings.patience,
        lr=settings.lr,
        weight_decay=weight_decay,
        warmup_epochs=1,
        max_gradient_norm=math.inf,
    )
    return descend(adapter, loss_of, None, how, seed=drawn_seed())


class GCNEncoder(nn.Module):
    """Embeddings of nodes.

    Args:
        num_features: columns of `x`.
        sizes: columns of each layer's output.
    """

    def __init__(self, num_features: int, sizes: Sequence[int]) -> None:
        super().__init__()
        widths = list(pairwise([num_features, *sizes]))
        self.layers = nn.ModuleList(GCNConv(a, b) for a, b in widths)
        self.activations = nn.ModuleList(nn.PReLU() for _ in widths)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return embeddings float [num_nodes, sizes[-1]].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        for layer, activation in zip(self.layers, self.activations, strict=True):
            x = activation(layer(x, edge_index, edge_weight))
        return x

    @property
    def first_weight(self) -> Tensor:
        """W of the first layer, float [num_features, sizes[0]]."""
        return cast(Tensor, self._layer(0).lin.weight).T

    def behind(self, product: Tensor, propagate: Propagation) -> Tensor:
        """Return the embeddings, starting from the features' product with `first_weight`.

        For training: if several views share their features, that product is computed once.

        Args:
            product: float [n, sizes[0]].
            propagate: H -> A^ H.
        """
        last = len(self.layers) - 1
        for number, activation in enumerate(self.activations):
            product = activation(propagate(product) + self._layer(number).bias)
            if number < last:
                product = product @ self._layer(number + 1).lin.weight.T
        return product

    def _layer(self, number: int) -> GCNConv:
        return cast(GCNConv, self.layers[number])


class BehindProduct(nn.Module):
    """An encoder that is called as `(product, propagate)`, see `GCNEncoder.behind`."""

    def __init__(self, encoder: GCNEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, product: Tensor, propagate: Propagation) -> Tensor:
        """Return embeddings float [n, sizes[-1]]."""
        return self.encoder.behind(product, propagate)


def summary(embeddings: Tensor, *_: object) -> Tensor:
    """Return DGI's summary of a graph: the sigmoid of the mean of its embeddings, float [h]."""
    return torch.sigmoid(embeddings.mean(dim=0))
