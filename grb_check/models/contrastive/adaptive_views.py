"""GCA's views of a graph: the less important an edge or feature, the more often it is left out.

Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021, section 3.2. Each
edge is dropped, and each feature masked, with the probability (equations 3 and 5)

    p = min(rate * (s_max - s) / (s_max - mean(s)), p_tau),

where s is the logarithm of an edge's or a feature's importance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

import scipy.sparse as sp
import torch
from torch import Tensor

from grb_check.attacks.modification.shared.centrality import eigenvector as leading_eigenvector

Centrality = Literal["degree", "eigenvector", "pagerank"]
MOST: Final = 0.7  # p_tau; the authors' code
DAMPING: Final = 0.85  # of PageRank; section 3.2.1
STEPS: Final = 200  # of PageRank's iteration; the authors' code


def edge_importance(centrality: Tensor, edge_index: Tensor) -> Tensor:
    """Return s of each edge, float [e]: log(1 + mean centrality of its ends) (equation 2).

    The added 1, as in the authors' code, makes it defined for a centrality of 0.

    Args:
        centrality: float [N], 0 and more.
        edge_index: int64 [2, e].
    """
    return centrality[edge_index].mean(dim=0).log1p()


def feature_importance(centrality: Tensor, features: Tensor) -> Tensor:
    """Return s of each feature, float [d]: log(1 + sum_i |x_i| centrality_i) (equation 4).

    Args:
        centrality: float [N], 0 and more.
        features: float [N, d], 0 where a node lacks a feature.
    """
    return (features.abs().T @ centrality).log1p()


def adaptive_probabilities(importance: Tensor, rate: float) -> Tensor:
    """Return p of each edge or feature, float [n], between 0 and `MOST`.

    Args:
        importance: s, float [n]; if all are equal, so are all p.
        rate: the mean of p before it is cut off at `MOST`.
    """
    if not importance.numel():
        return importance
    below = importance.max() - importance
    relative = torch.where(below.mean() > 0, below / below.mean(), torch.ones_like(below))
    return (rate * relative).clamp(max=MOST)


def kept_edges(edge_index: Tensor, probabilities: Tensor) -> Tensor:
    """Return the edges that are not dropped, int64 [2, 2F], each in both directions.

    Args:
        edge_index: int64 [2, 2E], each edge in both directions.
        probabilities: float [2E], of being dropped; the entry of the forward direction counts.
    """
    forth = edge_index[0] < edge_index[1]
    retained = edge_index[:, forth][:, kept_at_random(probabilities[forth])]
    return torch.cat([retained, retained.flip(0)], dim=1)


def kept_at_random(probabilities: Tensor) -> Tensor:
    """Return bool [n] from torch's global generator: False with these probabilities float [n]."""
    return torch.rand(probabilities.shape).to(probabilities.device) >= probabilities


def degree(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the number of edges at each node, float [N]."""
    return torch.bincount(edge_index[0], minlength=num_nodes).float()


def pagerank(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return PageRank, float [N], with mean 1 as in their code; 1 - `DAMPING` if isolated."""
    source, target = edge_index
    shares = degree(edge_index, num_nodes).clamp(min=1).reciprocal()
    rank = torch.ones(num_nodes, device=edge_index.device)
    for _ in range(STEPS):
        arriving = torch.zeros_like(rank).index_add(0, target, (rank * shares)[source])
        rank = 1 - DAMPING + DAMPING * arriving
    return rank


def eigenvector(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the leading eigenvector of the adjacency, float [N], of length 1, non-negative."""
    ends = tuple(edge_index.cpu().numpy())
    ones = torch.ones(edge_index.shape[1]).double().numpy()
    adjacency = sp.csr_matrix((ones, ends), shape=(num_nodes, num_nodes))
    result = torch.from_numpy(leading_eigenvector(adjacency, torch.Generator()))
    return result.float().to(edge_index.device)


CENTRALITIES: Final[Mapping[Centrality, Callable[[Tensor, int], Tensor]]] = MappingProxyType(
    {"degree": degree, "eigenvector": eigenvector, "pagerank": pagerank}
)
