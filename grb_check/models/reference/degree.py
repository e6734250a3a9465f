"""Logistic regression on the degree: what the number of its edges alone tells of a node.

A model of graphs that finds no more than this one has not used whom a node is linked to.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.utils import scatter


class DegreeDetector(nn.Module):
    """One linear layer on log(1 + degree), which sees no features.

    Args:
        num_classes: columns of the logits.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(1, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, f], of which only the number of nodes counts.
            edge_index: int64 [2, e], both directions of each edge.
            edge_weight: float [e]; 1 without. A sum below 0 counts as 0.
        """
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        degree = scatter(weight, edge_index[1], dim=0, dim_size=x.shape[0])
        logits: Tensor = self.linear(degree.clamp(min=0).log1p()[:, None])
        return logits


def degree(num_features: int, num_classes: int, dataset: str = "") -> DegreeDetector:
    """Return an untrained detector."""
    return DegreeDetector(num_classes)
