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

from collections.abc import Sequence
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


class AirGNN(Decoupled):
    """A perceptron whose logits are propagated with adaptive residuals.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        share: lambda, the weight of the residual.
        k: steps of the propagation.
        dropout: probability, on `x` and after the ReLU of every hidden layer.

    Raises:
        UsageError: the share is not above 0 and below 1.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64,),
        *,
        share: float = 0.5,
        k: int = 10,
        dropout: float = 0.8,
    ) -> None:
        super().__init__(
            num_features, num_classes, hidden_sizes, dropout=dropout, input_dropout=dropout
        )
        if not 0 < share < 1:
            raise UsageError(f"share is {share}; it must be above 0 and below 1")
        self.threshold = share / (2 * (1 - share))
        self.k = k

    def propagate(self, h: Tensor, edges: WeightedEdges) -> Tensor:
        """Return the last F, float [N, c], for H float [N, c]."""
        f = h
        for _ in range(self.k):
            disagreement = f - edges.laplacian(f) - h
            f = h + disagreement - on_ball(disagreement, self.threshold)
        return f


def air_gnn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained AirGNN and its training, the same for all datasets."""
    model = AirGNN(num_features, num_classes)
    return SelfTrained(model, fit_with(model, TRAINING))
