"""Graph diffusion by personalised PageRank, of which each node keeps its largest entries.

Klicpera et al., "Diffusion Improves Graph Learning", NeurIPS 2019 (GDC), equations 1 to 3: with
T = D^-1/2 (A + I) D^-1/2 and D the degrees of A + I,

    S = alpha (I - (1 - alpha) T)^-1

and in each row the k largest entries are kept and divided by their sum.

S is a dense matrix, made by a Cholesky decomposition. Only k entries of each row have a gradient,
so that the backward pass takes one product of a sparse and a dense matrix, and one of two rows for
each edge.
"""

from __future__ import annotations

from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from grb_check.gradients.normalisation import GCN_NORM
from grb_check.models.defences.dense import check_dense
from grb_check.victims.sparse import csr_matrix

ARRAYS: Final = 4  # N x N arrays in memory at a time
GATHERED: Final = 1_000_000  # values of dense rows at some edges, in memory at a time
PER_ENTRY: Final = 20  # an entry of a gathered product takes as long as that many of a dense one


def diffused(
    edge_index: Tensor, weights: Tensor, num_nodes: int, *, alpha: float, neighbours: int
) -> tuple[Tensor, Tensor]:
    """Return for each node those where its entries of S are largest, and these, of sum 1.

    Args:
        edge_index: int64 [2, e], both directions of each edge.
        weights: float [e], the same in both directions; may require a gradient, which cannot be
            differentiated again.
        num_nodes: N.
        alpha: probability of teleport.
        neighbours: k, of which N are kept if there are fewer nodes.

    Returns:
        Nodes int64 [N, k] and entries float [N, k], in descending order.

    Raises:
        ModelError: the matrices would take too much memory, see `dense`.
    """
    check_dense("diffusion", num_nodes, arrays=ARRAYS, bytes_each=weights.element_size())
    places = GCN_NORM.places(edge_index, num_nodes)
    entries = GCN_NORM.entries(edge_index, num_nodes, weights)
    num_neighbours = min(neighbours, num_nodes)
    result = _Largest.apply(entries, places, num_nodes, alpha, num_neighbours)  # type: ignore[no-untyped-call]
    near, values = cast("tuple[Tensor, Tensor]", result)
    return near, values / values.sum(dim=1, keepdim=True)


class _Largest(torch.autograd.Function):
    """The k largest entries in each row of S, for entries of T."""

    @staticmethod
    def forward(
        ctx: Any, entries: Tensor, places: Tensor, num_nodes: int, alpha: float, num_neighbours: int
    ) -> tuple[Tensor, Tensor]:
        matrix = entries.new_zeros((num_nodes, num_nodes))  # N x N, see `dense`
        matrix[places[0], places[1]] = entries * (alpha - 1)
        matrix.diagonal().add_(1.0)
        matrix = torch.cholesky_inverse(torch.linalg.cholesky(matrix)).mul_(alpha)
        values, near = matrix.topk(num_neighbours, dim=1)
        ctx.save_for_backward(matrix, near, places)
        ctx.alpha = alpha
        ctx.mark_non_differentiable(near)
        return near, values.clamp(min=0.0)  # below 0 is rounding, between nodes without a path

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor, of_values: Tensor) -> tuple[Tensor | None, ...]:
        matrix, near, (rows, columns) = ctx.saved_tensors
        num_nodes, num_neighbours = near.shape
        row_numbers = torch.arange(num_nodes, device=near.device).repeat_interleave(num_neighbours)
        gradient = csr_matrix(row_numbers, near.flatten(), of_values.flatten(), num_nodes)
        # The gradient in T is S G S, for G that in S.
        halfway = (gradient @ matrix).T.contiguous()
        if rows.numel() * PER_ENTRY > num_nodes**2:
            result = (matrix @ halfway.T)[rows, columns]
        else:
            size = max(1, GATHERED // num_nodes)
            ends = zip(torch.split(rows, size), torch.split(columns, size), strict=True)
            result = torch.cat([(matrix[i] * halfway[j]).sum(dim=1) for i, j in ends])
        return result * ((1 - ctx.alpha) / ctx.alpha), None, None, None, None
