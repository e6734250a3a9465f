"""The normalised Laplacian of a weighted graph as differences along its undirected edges.

With A~ = A + I, D its degrees and one row of B for each undirected edge {i, j}, 1 at one end and -1
at the other, in any orientation, and W the diagonal matrix of the edges' weights:

    I - D^-1/2 A~ D^-1/2 = D^-1/2 B' W B D^-1/2

Weights enter linearly, so that an edge of weight 0 has no effect and its gradient is finite, which
rows of B scaled by the roots of weights would not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from grb_check.victims.sparse import csr_block, csr_matrix


@dataclass(frozen=True, eq=False)
class Incidence:
    """The undirected edges of one graph.

    Attributes:
        ends: int64 [2, m], the ends of each edge.
        order: int64 [2 m], places in the edge index; those of one edge's directions are adjacent.
        transposed: B' as sparse CSR [N, m].
    """

    ends: Tensor
    order: Tensor
    transposed: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Incidence:
        """Return the edges of int64 [2, e], both directions of each edge, no self-loop."""
        lower, upper = edge_index.amin(dim=0), edge_index.amax(dim=0)
        order = (lower * num_nodes + upper).argsort(stable=True)
        ends = torch.stack([lower, upper])[:, order[::2]]
        count = ends.shape[1]
        edges = torch.arange(count, device=ends.device)
        ones = torch.ones(count, dtype=dtype, device=ends.device)
        square = csr_matrix(
            ends.flatten(), edges.repeat(2), torch.cat([ones, -ones]), max(num_nodes, count)
        )
        nodes = torch.arange(num_nodes, device=ends.device)
        return cls(ends, order, csr_block(square, nodes, edges))

    def weighted(self, edge_weight: Tensor | None) -> WeightedEdges:
        """Return the edges with weights float [e] in the order of the edge index (default: 1)."""
        if edge_weight is None:
            values = self.transposed.values()
            weights = torch.ones(self.ends.shape[1], dtype=values.dtype, device=values.device)
        else:
            weights = edge_weight[self.order].view(-1, 2).mean(dim=1)
        degrees = 1.0 + self.at_ends(weights)
        return WeightedEdges(self, weights.unsqueeze(1), degrees.rsqrt().unsqueeze(1))

    def at_ends(self, values: Tensor) -> Tensor:
        """Return the sums [N] of values [m] over the edges of each node."""
        sums = values.new_zeros(self.transposed.shape[0])
        return sums.index_add(0, self.ends[0], values).index_add(0, self.ends[1], values)


@dataclass(frozen=True, eq=False)
class WeightedEdges:
    """Undirected edges with weights.

    Attributes:
        incidence: B.
        weights: float [m, 1], the diagonal of W.
        scale: float [N, 1], the diagonal of D^-1/2.
    """

    incidence: Incidence
    weights: Tensor
    scale: Tensor

    def differences(self, h: Tensor) -> Tensor:
        """Return B D^-1/2 H, float [m, d], for float [N, d]."""
        return cast(
            Tensor,
            _Differences.apply(self.scale * h, self.incidence),  # type: ignore[no-untyped-call]
        )

    def divergence(self, rows: Tensor) -> Tensor:
        """Return D^-1/2 B' R, float [N, d], for float [m, d]."""
        return self.scale * cast(
            Tensor,
            _Sums.apply(rows, self.incidence),  # type: ignore[no-untyped-call]
        )

    def laplacian(self, h: Tensor) -> Tensor:
        """Return (I - D^-1/2 A~ D^-1/2) H, float [N, d]."""
        return self.divergence(self.weights * self.differences(h))


# B H is cheapest by its two rows for each edge, B' R by a sparse product: each has the other as its
# gradient, where autograd would add rows one by one.
class _Differences(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence = incidence
        first, second = incidence.ends
        return h.index_select(0, first).sub_(h.index_select(0, second))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Sums.apply(gradient, ctx.incidence), None  # type: ignore[no-untyped-call]


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence = incidence
        return incidence.transposed @ rows

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Differences.apply(gradient, ctx.incidence), None  # type: ignore[no-untyped-call]
