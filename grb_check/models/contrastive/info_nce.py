"""The contrastive loss of GRACE and GCA, computed in tiles: memory is not quadratic in N.

Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021, equation 1. With
u_i and v_i the embeddings of node i in two views, scaled to length 1, and a temperature t,

    l(u_i, v_i) = log [sum_j exp(u_i v_j / t) + sum_{j != i} exp(u_i u_j / t)] - u_i v_i / t
    L = 1 / (2 N) sum_i [ l(u_i, v_i) + l(v_i, u_i) ]

All N^2 similarities are needed, but not at the same time: sums are taken tile by tile, and the
backward pass recomputes each tile. The three matrices U V', U U' and V V' are enough; of the last
two only the upper half is computed, which serves rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.errors import UsageError

TILE: Final = 1024  # rows and columns: 4 MB in float32, which processor caches hold
LOWEST_TEMPERATURE: Final = 0.05  # exp(1 / t) and sums of it stay far below the limit of float32


def info_nce(first: Tensor, second: Tensor, *, temperature: float, tile: int = TILE) -> Tensor:
    """Return the symmetric contrastive loss of two views, a scalar, differentiable once.

    Time is O(N^2 d); memory, besides the gradients, O(N + tile^2).

    Args:
        first: float [N, d], the nodes' projected embeddings in one view.
        second: float [N, d], the same in the other view.
        temperature: t.
        tile: rows and columns of similarities that are computed at a time.

    Raises:
        UsageError: the temperature is too low for float32, or there is no node.
    """
    if not temperature >= LOWEST_TEMPERATURE:
        raise UsageError(f"temperature is {temperature}; it must be at least {LOWEST_TEMPERATURE}")
    if first.shape != second.shape or not first.numel():
        raise UsageError(
            f"the views have embeddings {list(first.shape)} and {list(second.shape)}; both must be "
            f"[num_nodes, size] of the same nodes, at least one"
        )
    u, v = F.normalize(first, dim=1), F.normalize(second, dim=1)
    apart = cast(Tensor, _LogSums.apply(u, v, temperature, tile))  # type: ignore[no-untyped-call]
    return apart - (u * v).sum(dim=1).mean() / temperature


class _LogSums(torch.autograd.Function):
    """The mean over nodes and views of the logarithms of the denominators."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, temperature: float, tile: int) -> Tensor:
        of_u, of_v = u.new_zeros(len(u)), u.new_zeros(len(v))  # the denominators
        for a, b, sums_a, sums_b, within in _pairs(u, v, of_u, of_v):
            for rows, columns in _tiles(len(u), tile, upper=within):
                exponentials = _exponentials(a[rows], b[columns], temperature)
                if within and rows == columns:
                    exponentials.fill_diagonal_(0)
                    sums_a[rows] += exponentials.sum(dim=1)
                    continue
                sums_a[rows] += exponentials.sum(dim=1)
                sums_b[columns] += exponentials.sum(dim=0)
        ctx.save_for_backward(u, v, of_u, of_v)
        ctx.temperature, ctx.tile = temperature, tile
        return (of_u.log().mean() + of_v.log().mean()) / 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        u, v, of_u, of_v = ctx.saved_tensors
        grad_u, grad_v = torch.zeros_like(u), torch.zeros_like(v)
        inverses = of_u.reciprocal(), of_v.reciprocal()
        for a, b, inverse_a, inverse_b, within in _pairs(u, v, *inverses):
            grad_a = grad_u if a is u else grad_v
            grad_b = grad_u if b is u else grad_v
            for rows, columns in _tiles(len(u), ctx.tile, upper=within):
                slopes = _exponentials(a[rows], b[columns], ctx.temperature)
                slopes *= inverse_a[rows, None] + inverse_b[columns]
                if within and rows == columns:
                    slopes.fill_diagonal_(0)
                    grad_a[rows] += slopes @ b[columns]
                    continue
                grad_a[rows] += slopes @ b[columns]
                grad_b[columns] += slopes.T @ a[rows]
        scale = gradient / (2 * len(u) * ctx.temperature)
        return grad_u * scale, grad_v * scale, None, None


def _pairs(
    u: Tensor, v: Tensor, of_u: Tensor, of_v: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor, bool]]:
    """Yield, for each matrix of similarities, both sides, their sums, and whether they are one."""
    yield u, v, of_u, of_v, False
    yield u, u, of_u, of_u, True
    yield v, v, of_v, of_v, True


def _tiles(size: int, tile: int, *, upper: bool) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of each tile of a square matrix; with `upper`, of its upper half."""
    for row in range(0, size, tile):
        for column in range(row if upper else 0, size, tile):
            yield slice(row, row + tile), slice(column, column + tile)


def _exponentials(rows: Tensor, columns: Tensor, temperature: float) -> Tensor:
    """Return exp(s / t), float [n, m], of the similarities s of rows [n, d] and columns [m, d]."""
    return ((rows / temperature) @ columns.T).exp_()
