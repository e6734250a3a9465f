"""Logistic regression on the features: what a linear model knows without the graph."""

from __future__ import annotations

from torch import Tensor, nn


class LogisticRegression(nn.Module):
    """One linear layer, which sees no edge.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes] of features float [num_nodes, f] alone."""
        logits: Tensor = self.linear(x)
        return logits


def logistic_regression(
    num_features: int, num_classes: int, dataset: str = ""
) -> LogisticRegression:
    """Return an untrained logistic regression."""
    return LogisticRegression(num_features, num_classes)
