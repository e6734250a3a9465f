"""Products with a fixed symmetric sparse matrix, such as an undirected graph's adjacency."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor


def symmetric_product(matrix: Tensor, dense: Tensor) -> Tensor:
    """matrix @ dense, differentiable in `dense` any number of times.

    Args:
        matrix: sparse CSR [n, n], symmetric; it is not checked, and gets no gradient.
        dense: float [n, d].
    """
    return cast(Tensor, _SymmetricProduct.apply(dense, matrix))  # type: ignore[no-untyped-call]


class _SymmetricProduct(torch.autograd.Function):
    """Being symmetric, the matrix is its own gradient's matrix, which spares the transposition
    that torch's own backward makes on every call."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return symmetric_product(ctx.matrix, gradient), None
