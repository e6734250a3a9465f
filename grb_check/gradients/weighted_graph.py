"""A weighted graph as a sparse matrix, with its degrees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grb_check.victims.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """A weighted graph.

    Attributes:
        matrix: A, sparse CSR [N, N].
        transposed: the same matrix if it is symmetric.
        sums: its row sums, float [N].
    """

    matrix: Tensor
    transposed: Tensor
    sums: Tensor

    def product(self, loop: float, dense: Tensor) -> Tensor:
        """Return (A + loop I) dense, float [N, r]."""
        return self.matrix @ dense + loop * dense

    def transposed_product(self, loop: float, dense: Tensor) -> Tensor:
        """Return (A^T + loop I) dense, float [N, r]."""
        return self.transposed @ dense + loop * dense

    def degrees(self, loop: float) -> Tensor:
        """Return the degrees in A + loop I, float [N, 1], with 1 in place of 0.

        An isolated node receives 0 in any case; its first neighbour then counts as with a degree of
        1, where the derivative at 0 may be infinite.
        """
        degrees = self.sums + loop
        return torch.where(degrees > 0, degrees, 1.0)[:, None]


def weighted_graph(edge_index: Tensor, weights: Tensor, num_nodes: int) -> WeightedGraph:
    """Return the graph of edges int64 [2, e], in both directions, with weights float [e]."""
    matrix = csr_matrix(edge_index[0], edge_index[1], weights, num_nodes)
    sums = weights.new_zeros(num_nodes).index_add(0, edge_index[0], weights)
    return WeightedGraph(matrix, matrix, sums)


def directed_graph(edge_index: Tensor, like: Tensor, num_nodes: int) -> WeightedGraph:
    """Return the graph of edges int64 [2, e], from and to, each in its own direction."""
    source, target = edge_index
    ones = like.new_ones(source.numel())
    return WeightedGraph(
        csr_matrix(target, source, ones, num_nodes),
        csr_matrix(source, target, ones, num_nodes),
        ones.new_zeros(num_nodes).index_add(0, target, ones),
    )
