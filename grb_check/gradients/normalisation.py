"""Adjacency matrices that are normalised by degrees, and their products with features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from grb_check.victims.sparse import csr_matrix, symmetric_product

Propagation = Callable[[Tensor], Tensor]  # H float [N, d] -> P H float [N, d]


@dataclass(frozen=True)
class Normalisation:
    """The matrix P = factor D^left (A + loop I) D^right.

    D is the diagonal matrix of the degrees in A + loop I: the sums of its columns, or of its rows
    if `by_rows`, which are the same in an undirected graph. Powers of degrees that are not positive
    count as 0, in value and gradient.
    """

    left: float
    right: float
    loop: float
    factor: float = 1.0
    by_rows: bool = False

    @property
    def unscaled(self) -> Normalisation:
        """A + loop I."""
        return replace(self, left=0.0, right=0.0, factor=1.0)

    def scale(self, degrees: Tensor) -> Tensor:
        """Return the diagonal of D^left, float [n], for degrees [n] in A; differentiable."""
        return _power(degrees + self.loop, self.left)

    def scales(self, degrees: Tensor) -> tuple[Tensor, Tensor]:
        """Return the diagonals of D^left and D^right, float [n], for degrees [n] in A."""
        return self.scale(degrees), _power(degrees + self.loop, self.right)

    def places(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the places of P's entries, int64 [2, e + N]; [2, e] if `loop` is 0."""
        if not self.loop:
            return edge_index
        diagonal = torch.arange(num_nodes, device=edge_index.device).expand(2, -1)
        return torch.cat([edge_index, diagonal], dim=1)

    def entries(self, edge_index: Tensor, num_nodes: int, weights: Tensor) -> Tensor:
        """Return P's entries in the order of `places`, differentiable in the weights.

        Args:
            edge_index: int64 [2, e], the row and the column of each entry of A.
            num_nodes: N.
            weights: float [e], entries of A.
        """
        edges, loops = self._entries(edge_index, num_nodes, weights)
        return torch.cat([edges, loops]) if self.loop else edges

    def matrix(self, edge_index: Tensor, num_nodes: int, weights: Tensor | None = None) -> Tensor:
        """Return P as sparse CSR [N, N]; weights are float32 ones if they are not given."""
        if weights is None:
            weights = torch.ones(edge_index.shape[1], device=edge_index.device)
        rows, columns = self.places(edge_index, num_nodes)
        return csr_matrix(rows, columns, self.entries(edge_index, num_nodes, weights), num_nodes)

    def fixed(self, edge_index: Tensor, num_nodes: int) -> Propagation:
        """Return H -> P H with the matrix computed once; for left = right."""
        return fixed_propagation(self.matrix(edge_index, num_nodes))

    def weighted(self, edge_index: Tensor, num_nodes: int, weights: Tensor) -> Propagation:
        """Return H -> P H, computed edge by edge, differentiable in the weights float [e]."""
        source, target = edge_index
        edges, loops = self._entries(edge_index, num_nodes, weights)
        edges, loops = edges.unsqueeze(1), loops.unsqueeze(1)  # [e, 1] and [N, 1]
        return lambda h: (loops * h).index_add(0, target, edges * h[source])

    def _entries(
        self, edge_index: Tensor, num_nodes: int, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the entries of the edges [e] and of the diagonal [N]."""
        rows, columns = edge_index
        ends = rows if self.by_rows else columns
        degrees = weights.new_full((num_nodes,), self.loop).index_add(0, ends, weights)
        left, right = _power(degrees, self.left), _power(degrees, self.right)
        edges = left[rows] * weights * right[columns]
        return self.factor * edges, self.factor * (left * self.loop * right)


GCN_NORM: Final = Normalisation(-0.5, -0.5, 1.0)  # Kipf & Welling (2017)


def fixed_propagation(matrix: Tensor) -> Propagation:
    """Return H -> matrix H of a symmetric sparse CSR matrix [N, N]."""
    return lambda h: symmetric_product(matrix.to(h.dtype), h)


def _power(degrees: Tensor, exponent: float) -> Tensor:
    if exponent == 0.0:
        return torch.ones_like(degrees)
    positive = degrees > 0
    some = torch.where(positive, degrees, 1.0)
    return torch.where(positive, some.rsqrt() if exponent == -0.5 else some**exponent, 0.0)
