"""The matrix that a module called as `(x, adj)` gets: the adjacency as it is, or normalised."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from grb_check.victims.sparse import coo_matrix

AdjacencyRule: TypeAlias = Literal["raw", "row", "sym"]
ADJACENCY_RULES: Final[tuple[AdjacencyRule, ...]] = get_args(AdjacencyRule)
MOST_DENSE_NODES: Final = 10_000  # 400 MB a matrix


def adjacency_matrix(edge_index: Tensor, num_nodes: int, rule: AdjacencyRule) -> Tensor:
    """Return the adjacency as a sparse COO matrix float32 [N, N].

    Args:
        edge_index: int64 [2, e], both directions of each edge.
        num_nodes: N.
        rule: `raw` for A; else A + I, divided by the degrees of its rows (`row`), or by their roots
            on both sides, as in Kipf and Welling 2017, equation 2 (`sym`).
    """
    rows, columns = edge_index
    if rule != "raw":
        diagonal = torch.arange(num_nodes, device=edge_index.device)
        rows, columns = torch.cat([rows, diagonal]), torch.cat([columns, diagonal])
    values = torch.ones(rows.numel(), device=edge_index.device)
    if rule == "row":
        values = 1 / torch.bincount(rows, minlength=num_nodes)[rows].float()
    if rule == "sym":
        roots = torch.bincount(rows, minlength=num_nodes).float().rsqrt()
        values = roots[rows] * roots[columns]
    return coo_matrix(rows, columns, values, num_nodes)
