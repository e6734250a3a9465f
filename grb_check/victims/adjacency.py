"""The matrix that a module called as `(x, adj)` gets: the adjacency as it is, or normalised."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from grb_check.victims.sparse import coo_matrix

AdjacencyRule: TypeAlias = Literal["raw", "row", "sym"]
ADJACENCY_RULES: Final[tuple[AdjacencyRule, ...]] = get_args(AdjacencyRule)
MOST_DENSE_NODES: Final = 10_000  # 400 MB a matrix


def adjacency_matrix(
    edge_index: Tensor, weights: Tensor, num_nodes: int, rule: AdjacencyRule
) -> Tensor:
    """Return the adjacency as a sparse COO matrix float32 [N, N].

    Args:
        edge_index: int64 [2, e], the row and the column of each entry.
        weights: float32 [e], the entries of A.
        num_nodes: N.
        rule: `raw` for A; else A + I, divided by the degrees of its rows (`row`), or by their roots
            on both sides, as in Kipf and Welling 2017, equation 2 (`sym`).
    """
    rows, columns = edge_index
    if rule != "raw":
        diagonal = torch.arange(num_nodes, device=edge_index.device)
        rows, columns = torch.cat([rows, diagonal]), torch.cat([columns, diagonal])
        weights = torch.cat([weights, weights.new_ones(num_nodes)])
    degrees = torch.bincount(rows, weights, num_nodes).to(weights)
    if rule == "row":
        weights = weights / degrees[rows]
    if rule == "sym":
        roots = degrees.rsqrt()
        weights = weights * roots[rows] * roots[columns]
    return coo_matrix(rows, columns, weights, num_nodes)
