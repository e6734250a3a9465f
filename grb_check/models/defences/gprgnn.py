"""GPR-GNN: a perceptron, then a polynomial of the normalised adjacency with learned coefficients.

Chien et al., "Adaptive Universal Generalized PageRank Graph Neural Network", ICLR 2021, section 3,
with A^ as for the GCN:

    H = MLP(X),    Z = gamma_0 H + gamma_1 A^ H + ... + gamma_K A^^K H

The coefficients start as those of personalised PageRank, gamma_k = alpha (1 - alpha)^k for k < K
and gamma_K = (1 - alpha)^K, and are trained with the perceptron. They may become negative. As in
the authors' code, dropout is also applied to H, and weight decay to the perceptron alone.

The learning rate and alpha are those of the authors' script for Cora and CiteSeer with few training
nodes, which has the same values for both. Its early stopping compares the validation loss with the
mean of the last 200, after at most 1,000 epochs; here training ends after 100 without an
improvement, or 500.

Gosch et al., "Adversarial Training for Graph Neural Networks: Pitfalls, Solutions, and New
Directions", NeurIPS 2023, train such models against flips of edges: `gprgnn_at`, with the learning
rate and weight decay of their code's defaults. Those for its budget and number of iterations are
0.1 and 3,000; here they are 0.25, with which it gains more, and 300.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from grb_check.training.nodes import (
    Fit,
    TrainingRun,
    TrainingSettings,
    adapter_of,
    check_views,
    counted,
    descend,
    drawn_seed,
    loss_on,
    measure_on,
)
from grb_check.training.structural_adversarial import (
    StructuralSettings,
    structural_adversarial_training,
)
from grb_check.victims.wrappers import SelfTrained

# Without clipping: the penalty is part of the gradient, as weight decay of Adam is not.
TRAINING: Final = TrainingSettings(
    lr=0.01, max_epochs=500, patience=100, warmup_epochs=1, max_gradient_norm=float("inf")
)
WEIGHT_DECAY: Final = 5e-4
WEIGHT_DECAY_UNDER_ATTACK: Final = 1e-3  # Gosch et al., their code
UNDER_ATTACK: Final = StructuralSettings(
    budget=0.25,
    warmup=replace(TRAINING, max_epochs=100),
    training=replace(TRAINING, max_epochs=300),
)


class GeneralizedPageRank(nn.Module):
    """The polynomial, from H float [N, d] to Z float [N, d].

    Args:
        k: its degree.
        alpha: of the coefficients at the start.
    """

    def __init__(self, k: int, alpha: float) -> None:
        super().__init__()
        powers = (1 - alpha) ** torch.arange(k + 1.0)
        self.gamma = nn.Parameter(torch.cat([alpha * powers[:-1], powers[-1:]]))
        self.hop = SimpleConv(aggr="sum")

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return float [N, d]."""
        positions, entries = gcn_norm(edge_index, edge_weight, h.shape[0], dtype=h.dtype)
        z: Tensor = self.gamma[0] * h
        for gamma in self.gamma[1:]:
            h = self.hop(h, positions, entries)
            z = z + gamma * h
        return z


class GPRGNN(nn.Module):
    """Linear layers with ReLU and dropout between them, then the polynomial.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        k: degree of the polynomial.
        alpha: of its coefficients at the start.
        dropout: probability, on `x` and after the ReLU of every hidden layer.
        output_dropout: probability, on the perceptron's output.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64,),
        *,
        k: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
        output_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.propagation = GeneralizedPageRank(k, alpha)
        self.dropout = nn.Dropout(dropout)
        self.output_dropout = nn.Dropout(output_dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        h = x
        for number, layer in enumerate(self.layers):
            h = layer(self.dropout(torch.relu(h) if number else h))
        logits: Tensor = self.propagation(self.output_dropout(h), edge_index, edge_weight)
        return logits

    def penalty(self, weight_decay: float) -> Callable[[], Tensor]:
        """Return a function whose gradient is `weight_decay` times the perceptron's parameters."""
        parameters = list(self.layers.parameters())
        return lambda: weight_decay / 2 * torch.stack([p.square().sum() for p in parameters]).sum()


def fit_of(model: GPRGNN) -> Fit:
    """Return a `fit` for `grb_check.SelfTrained`: cross-entropy, decay of the perceptron alone."""

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        adapter = adapter_of(model)
        seed = drawn_seed()
        columns = check_views(adapter, data, validation, seed=seed)
        cross_entropy = loss_on(adapter, data, columns)
        penalty = model.penalty(WEIGHT_DECAY)
        measure = None
        if validation is not None:
            measure = measure_on(adapter, validation, columns, counted(validation, "val_mask"))
        return descend(adapter, lambda: cross_entropy() + penalty(), measure, TRAINING, seed=seed)

    return fit


def gprgnn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GPR-GNN and its training, the same for all datasets."""
    model = GPRGNN(num_features, num_classes)
    return SelfTrained(model, fit_of(model))


def gprgnn_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return `gprgnn` with adversarial training against flips of edges, see the module above."""
    model = GPRGNN(num_features, num_classes)

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        return structural_adversarial_training(
            model,
            data,
            validation,
            settings=UNDER_ATTACK,
            penalty=model.penalty(WEIGHT_DECAY_UNDER_ATTACK),
        )

    return SelfTrained(model, fit)
