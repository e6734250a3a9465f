"""ElasticGNN: a propagation that smooths by lengths of differences beside their squares.

Liu et al., "Elastic Graph Neural Networks", ICML 2021, Figure 1: "elastic message passing" with the
L21 norm. Steps of a primal-dual solver of

    min_F  1/2 |F - H|^2 + lambda1 sum_e w_e |(B D^-1/2 F)_e| + lambda2/2 tr(F' L F)

with H the perceptron's logits, B the incidence matrix, L = I - D^-1/2 A~ D^-1/2 the normalised
Laplacian, one dual row u_e for each undirected edge e, gamma = 1 / (1 + lambda2) and
beta = 1 / (2 gamma), from F = H and u = 0:

    Y = gamma H + (1 - gamma) (F - L F)
    U = project(U + beta B D^-1/2 (Y - gamma D^-1/2 B' W U))    on rows of length lambda1
    F = Y - gamma D^-1/2 B' W U

The paper has no weights of edges, and all w_e are 1. Here the weight of an edge multiplies both of
its terms. The paper's variable is then Z = W^1/2 U for an incidence matrix W^1/2 B, whose steps
converge under the paper's condition; in U there is no root, and weights of 0 have a gradient.

The settings below are those of the command for Cora that the authors' code documents; they are
taken for CiteSeer too, for which it documents none. Its command for graphs that were attacked
before training has lambda1 = 9, 16 hidden columns, dropout 0.5 and features without normalisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.errors import UsageError
from grb_check.models.defences.decoupled import Decoupled, on_ball
from grb_check.models.defences.edge_differences import WeightedEdges
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

TRAINING: Final = TrainingSettings(
    lr=0.01, weight_decay=5e-4, max_epochs=500, patience=100, warmup_epochs=1
)


@dataclass(frozen=True, kw_only=True)
class ElasticPropagation:
    """Elastic message passing.

    Attributes:
        lambda1: weight of the lengths of differences.
        lambda2: weight of their squares.
        k: steps.

    Raises:
        UsageError: lambda1 is not above 0, or lambda2 is below 0.
    """

    lambda1: float = 3.0
    lambda2: float = 3.0
    k: int = 10

    def __post_init__(self) -> None:
        if not (self.lambda1 > 0 and self.lambda2 >= 0):
            raise UsageError(
                f"lambda1 is {self.lambda1} and lambda2 {self.lambda2}; the first must be above 0, "
                f"the second at least 0"
            )

    def __call__(self, h: Tensor, edges: WeightedEdges, *, training: bool = False) -> Tensor:
        """Return the last F, float [N, c], for H float [N, c]."""
        gamma = 1 / (1 + self.lambda2)
        beta = 1 / (2 * gamma)
        f, pull = h, torch.zeros_like(h)  # pull: D^-1/2 B' W U
        dual = h.new_zeros(edges.weights.shape[0], h.shape[1])
        for _ in range(self.k):
            y = gamma * h + (1 - gamma) * (f - edges.laplacian(f))
            ahead = edges.differences(y - gamma * pull)
            dual = on_ball(torch.add(dual, ahead, alpha=beta), self.lambda1)
            pull = edges.divergence(edges.weights * dual)
            f = y - gamma * pull
        return f


def elastic_gnn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained ElasticGNN and its training, the same for all datasets."""
    model = Decoupled(
        num_features, num_classes, (64,), ElasticPropagation(), dropout=0.8, input_dropout=0.8
    )
    return SelfTrained(model, fit_with(model, TRAINING))
