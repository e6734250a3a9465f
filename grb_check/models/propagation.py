"""The normalised adjacency A^ = D^-1/2 (A + I) D^-1/2, D the degrees of A + I, and its products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from grb_check.gradients.symmetric import symmetric_product
from grb_check.victims.sparse import csr_matrix

Propagation = Callable[[Tensor], Tensor]


def normalised_adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """A^ as sparse CSR float32 [num_nodes, num_nodes]."""
    loops = torch.arange(num_nodes, device=edge_index.device)
    rows, columns = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
    scale = torch.bincount(rows, minlength=num_nodes).float().rsqrt()
    return csr_matrix(rows, columns, scale[rows] * scale[columns], num_nodes)


def fixed_propagation(matrix: Tensor) -> Propagation:
    """H -> matrix H of a symmetric sparse CSR matrix [num_nodes, num_nodes]."""
    return lambda h: symmetric_product(matrix.to(h.dtype), h)


def weighted_propagation(
    edge_index: Tensor, edge_weight: Tensor, num_nodes: int, *, power: int = 1
) -> Propagation:
    """H -> D^(-p/2) (A + I) D^(-p/2) H from a list of edges, differentiable in their weights."""
    source, target = edge_index
    degrees = torch.ones(num_nodes, dtype=edge_weight.dtype, device=edge_weight.device)
    degrees = degrees.index_add(0, target, edge_weight)
    # A relaxed weight may be negative: a node without positive degree passes nothing on.
    positive = degrees > 0
    scale = torch.where(positive, degrees.where(positive, degrees.new_ones(())).rsqrt(), 0.0)
    scale = scale**power
    entries = (scale[source] * edge_weight * scale[target]).unsqueeze(1)  # [e, 1]
    loops = (scale * scale).unsqueeze(1)  # [num_nodes, 1]
    return lambda h: (loops * h).index_add(0, target, entries * h[source])
