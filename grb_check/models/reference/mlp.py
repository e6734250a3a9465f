"""A perceptron on the features: what a model keeps that ignores the graph.

No change of edges and no injected node touches its predictions, so that a model of graphs that is
attacked below its accuracy would do better without the graph.
"""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

HIDDEN: Final = 64
DROPOUT: Final = 0.5


class MLP(nn.Module):
    """Two layers with ReLU and dropout between them.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(num_features, HIDDEN),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN, num_classes),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes] of features float [num_nodes, f] alone."""
        logits: Tensor = self.layers(x)
        return logits


def mlp(num_features: int, num_classes: int, dataset: str = "") -> MLP:
    """Return an untrained perceptron."""
    return MLP(num_features, num_classes)
