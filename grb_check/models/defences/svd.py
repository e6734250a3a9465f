"""GNN-SVD: a GCN on a low-rank approximation of the adjacency.

Entezari et al., "All You Need Is Low (Rank): Defending Against Adversarial Attacks on Graphs",
WSDM 2020, section 4: in the GCN's A^ = D^-1/2 (A + I) D^-1/2, A is replaced by U S V', its singular
value decomposition truncated to rank k, and D by the degrees of U S V' + I.

The factors are kept separate, D^-1/2 (U (S (V' D^-1/2 H)) + D^-1/2 H), so that no N x N matrix is
made. A truncated adjacency also has negative entries; if those of a row outweigh the others, its
degree counts as that of the self-loop alone, 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from grb_check.gradients.normalisation import Propagation
from grb_check.models.defences.low_rank import low_rank_adjacency
from grb_check.models.published import architecture
from grb_check.models.reference.gcn import GCN


class GCNSVD(nn.Module):
    """A GCN whose propagation has low rank.

    The factors are a function of the edges alone, computed for each graph; their gradient in the
    weights of edges is that of the truncated decomposition. `on_topology` computes
    them once for many features.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        rank: k (default: 50, GRB's code; the paper compares 5 to 50).
        dropout: probability, after the ReLU of every hidden layer (default: 0.5, GRB Table 6).
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64),
        *,
        rank: int = 50,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.gcn = GCN(num_features, num_classes, hidden_sizes, dropout=dropout)
        self.rank = rank

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        factors = low_rank_adjacency(edge_index, x.shape[0], self.rank, edge_weight)
        return self.gcn.through(x, _propagation(*factors))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the decomposition computed once."""
        propagate = _propagation(*low_rank_adjacency(edge_index, num_nodes, self.rank))
        return lambda x: self.gcn.through(x, propagate)


def _propagation(vectors: Tensor, values: Tensor) -> Propagation:
    degrees = vectors @ (values * vectors.sum(dim=0))  # row sums of U S V'
    scale = (degrees.clamp(min=0.0) + 1.0).rsqrt().unsqueeze(1)  # [num_nodes, 1]
    left = scale * vectors * values
    right = (scale * vectors).T

    def propagate(h: Tensor) -> Tensor:
        loops = (scale * scale).to(h.dtype)
        return torch.addmm(loops * h, left.to(h.dtype), right.to(h.dtype) @ h)

    return propagate


def gcn_svd(num_features: int, num_classes: int, dataset: str = "") -> GCNSVD:
    """Return an untrained GCN-SVD with GRB's hyper-parameters, see `published`."""
    return GCNSVD(num_features, num_classes, **architecture("GCN-SVD", dataset))
