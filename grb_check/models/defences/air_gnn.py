"""AirGNN: each node decides how much of its own prediction it keeps in every step.

Liu et al., "Graph Neural Networks with Adaptive Residual", NeurIPS 2021, equations 9 to 14,
"adaptive message passing". Proximal gradient steps on

    min_F  lambda sum_i |F_i - H_i| + (1 - lambda) tr(F' L F)

with H the perceptron's logits and L = I - A^ the normalised Laplacian, A^ as for the GCN. With the
step size 1 / (2 (1 - lambda)), from F = H:

    Y = A^ F
    F_i = H_i + max(0, 1 - t / |Y_i - H_i|) (Y_i - H_i),    t = lambda / (2 (1 - lambda))

A node whose neighbours disagree with it by less than t keeps its own prediction.

Lambda is to be tuned for each graph. The settings below are those of the command for Cora that the
authors' code documents, with the defaults of that code; they are taken for CiteSeer too, for which
it documents none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torch import Tensor

from grb_check.errors import UsageError
from grb_check.models.defences.decoupled import Decoupled, on_ball
from grb_check.models.defences.edge_differences import WeightedEdges
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

TRAINING: Final = TrainingSettings(
    lr=0.01, weight_decay=5e-4, max_epochs=1000, patience=100, warmup_epochs=1
)


@dataclass(frozen=True, kw_only=True)
class AdaptivePropagation:
    """Adaptive message passing.

    Attributes:
        share: lambda, the weight of the residual.
        k: steps.

    Raises:
        UsageError: the share is not above 0 and below 1.
    """

    share: float = 0.5
    k: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(f"share is {self.share}; it must be above 0 and below 1")

    def __call__(self, h: Tensor, edges: WeightedEdges, *, training: bool = False) -> Tensor:
        """Return the last F, float [N, c], for H float [N, c]."""
        threshold = self.share / (2 * (1 - self.share))
        f = h
        for _ in range(self.k):
            disagreement = f - edges.laplacian(f) - h
            f = h + disagreement - on_ball(disagreement, threshold)
        return f


def air_gnn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained AirGNN and its training, the same for all datasets."""
    model = Decoupled(
        num_features, num_classes, (64,), AdaptivePropagation(), dropout=0.8, input_dropout=0.8
    )
    return SelfTrained(model, fit_with(model, TRAINING))
