"""RobustGCN: rows are Gaussians, and entries with a large variance get little weight.

Zhu et al., "Robust Graph Convolutional Networks Against Adversarial Attacks", KDD 2019, equations
4 to 8. With A~ = A + I, D its degrees, M the means and S the variances of the rows:

    alpha = exp(-gamma S)
    M' = D^-1/2 A~ D^-1/2 (elu(M W_m + b_m) * alpha)
    S' = D^-1 A~ D^-1 (relu(S W_s + b_s) * alpha^2)

where alpha is computed from the transformed S. The order within a layer, weights first, is that of
GRB's code, as are the biases. GRB's first layer takes the variances from the means and leaves their
own weights unused, although it counts them; here they are used, as in the paper. The output layer's
means are logits, without an ELU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from grb_check.gradients.normalisation import (
    GCN_NORM,
    Normalisation,
    Propagation,
    fixed_propagation,
)
from grb_check.models.published import architecture
from grb_check.victims.sparse import with_values

_OF_VARIANCES: Final = Normalisation(-1.0, -1.0, 1.0)
LEAST_VARIANCE: Final = 1e-8  # added under the root, whose gradient is infinite at 0


class RGCN(nn.Module):
    """Gaussian graph convolutions with dropout between them.

    In training mode logits are drawn from the last layer's Gaussians; in evaluation mode they are
    its means, so that the same graph has the same logits (GRB draws in both). As in GRB, the loss
    does not include the paper's KL divergence of the first layer's Gaussians.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        gamma: of the attention (default: 1, the paper).
        dropout: probability, between layers (default: 0.5, GRB Table 6).
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        gamma: float = 1.0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        self.means = nn.ModuleList(_linear(a, b) for a, b in pairwise(sizes))
        self.variances = nn.ModuleList(_linear(a, b) for a, b in pairwise(sizes))
        self.gamma = gamma
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        return self._layers(
            x,
            GCN_NORM.weighted(edge_index, x.shape[0], edge_weight),
            _OF_VARIANCES.weighted(edge_index, x.shape[0], edge_weight),
        )

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with both normalised adjacencies computed once."""
        matrix = GCN_NORM.matrix(edge_index, num_nodes)
        of_means = fixed_propagation(matrix)
        # Entries of A~ are 0 or 1, so that those of D^-1 A~ D^-1 are squares of the others.
        of_variances = fixed_propagation(with_values(matrix, matrix.values() ** 2))
        return lambda x: self._layers(x, of_means, of_variances)

    def _layers(self, x: Tensor, of_means: Propagation, of_variances: Propagation) -> Tensor:
        mean = variance = x
        last = len(self.means) - 1
        for number, (to_mean, to_variance) in enumerate(
            zip(self.means, self.variances, strict=True)
        ):
            mean, variance = to_mean(mean), torch.relu(to_variance(variance))
            attention = torch.exp(-self.gamma * variance)
            if number < last:
                mean = F.elu(mean)
            mean = of_means(mean * attention)
            variance = of_variances(variance * attention * attention)
            if number < last:
                mean, variance = self.dropout(mean), self.dropout(variance)
        if not self.training:
            return mean
        return mean + torch.randn_like(mean) * (variance + LEAST_VARIANCE).sqrt()


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def rgcn(num_features: int, num_classes: int, dataset: str = "") -> RGCN:
    """Return an untrained R-GCN with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return RGCN(num_features, num_classes, **architecture("R-GCN", dataset))
