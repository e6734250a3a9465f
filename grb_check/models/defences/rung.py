"""RUNG: edges between rows that differ much lose their weight, without a bias of the others.

Hou et al., "Robust Graph Neural Networks via Unbiased Aggregation", NeurIPS 2024, equations 7 and
8: quasi-Newton steps with reweighted least squares (QN-IRLS) on

    min_F  sum_e w_e rho(y_e) + lambda |F - H|^2,    y_e = |(B D^-1/2 F)_e|

with H the perceptron's logits, B the incidence matrix, D the degrees of A + I, w_e = 1 the weight
of an edge and rho the minimax concave penalty (MCP): y - y^2 / (2 gamma) up to gamma, and
gamma / 2 above. With V_e = d rho / d y^2 = max(0, 1 / (2 y_e) - 1 / (2 gamma)) and the sums
q_i = sum_j w_ij V_ij / d_i, a step is, from F = H,

    F <- (diag(q) + lambda I)^-1 (D^-1/2 (V * A) D^-1/2 F + lambda H)
       = F + (diag(q) + lambda I)^-1 (lambda (H - F) - D^-1/2 B' diag(w V) B D^-1/2 F)

As in the authors' code, y_e is the root of its square plus 0.01, self-loops are in D but not among
the edges, and in training no gradient passes through V. In evaluation mode it does, so that an
attacker sees the reweighting.

The hyper-parameters are those of the authors' code: lambda = 1 / 0.9 - 1, ten steps, 64 hidden
columns, and gamma = 6, the default of its training script; a later version of its documentation has
gamma = 36. It has no settings for Planetoid's graphs: its Cora ML and CiteSeer have other splits
and features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.errors import UsageError
from grb_check.models.defences.decoupled import Decoupled
from grb_check.models.defences.edge_differences import WeightedEdges
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

LEAST_SQUARE: Final = 0.01  # added to y^2
TRAINING: Final = TrainingSettings(
    lr=0.05, weight_decay=5e-4, max_epochs=300, patience=100, warmup_epochs=1
)


@dataclass(frozen=True, kw_only=True)
class UnbiasedPropagation:
    """Unbiased aggregation: edges whose ends differ much have no weight.

    Attributes:
        gamma: difference from which on an edge has no weight.
        residual: lambda, the weight of the perceptron's logits.
        k: steps.

    Raises:
        UsageError: gamma or the residual is not above 0.
    """

    gamma: float = 6.0
    residual: float = 1 / 0.9 - 1
    k: int = 10

    def __post_init__(self) -> None:
        if not (self.gamma > 0 and self.residual > 0):
            raise UsageError(
                f"gamma is {self.gamma} and residual {self.residual}; both must be above 0"
            )

    def __call__(self, h: Tensor, edges: WeightedEdges, *, training: bool = False) -> Tensor:
        """Return the last F, float [N, c], for H float [N, c]."""
        f = h
        for _ in range(self.k):
            differences = edges.differences(f)
            weights = edges.weights * self._trust(differences.detach() if training else differences)
            sums = edges.incidence.at_ends(weights.squeeze(1)).unsqueeze(1)
            curvature = edges.scale.square() * sums + self.residual
            pull = edges.divergence(weights * differences)
            f = f + (self.residual * (h - f) - pull) / curvature
        return f

    def _trust(self, differences: Tensor) -> Tensor:
        """Return V, float [m, 1]."""
        squares = differences.square().sum(dim=1, keepdim=True)
        return (0.5 * torch.rsqrt(squares + LEAST_SQUARE) - 0.5 / self.gamma).clamp(min=0.0)


def rung(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained RUNG and its training, the same for all datasets."""
    model = Decoupled(num_features, num_classes, (64,), UnbiasedPropagation(), dropout=0.5)
    return SelfTrained(model, fit_with(model, TRAINING))
