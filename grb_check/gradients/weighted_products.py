"""Products with sparse matrices that are differentiable in their entries.

PyG's layers make a row of features for each edge, add the rows up, and keep them for the backward
pass. A product with a sparse matrix makes none, and the gradient in the entries is a dense product
that is only computed at their places ("sampled"):

    out = M X,    dX = M^T dout,    dM_ij = <dout_i, X_j>.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from grb_check.victims.sparse import csr_layout, entries, product, with_values

COLUMNS: Final = 8  # torch's sampled product is much slower for numbers that are no multiple


@dataclass(frozen=True, eq=False)
class SparsityPattern:
    """Where the entries of a square matrix are.

    Attributes:
        rows, columns: int64 [e], the places as they were given.
        layout: sparse CSR [n, n] at these places, whose values mean nothing.
        order: int64 [e], which of the given places each of its entries is at.
        symmetric: whether the matrix always equals its transpose.
    """

    rows: Tensor
    columns: Tensor
    layout: Tensor
    order: Tensor
    symmetric: bool

    @classmethod
    def of(
        cls, rows: Tensor, columns: Tensor, size: int, *, symmetric: bool = False
    ) -> SparsityPattern:
        """Return the places int64 [e] of a matrix [size, size]."""
        return cls(rows, columns, *csr_layout(rows, columns, size), symmetric)

    @property
    def are_distinct(self) -> bool:
        """Whether no place is given twice, without which there is no matrix to fill."""
        return self.order.numel() == self.rows.numel()

    @cached_property
    def of_transpose(self) -> tuple[Tensor, Tensor]:
        """Layout and order of the transpose."""
        if self.symmetric:
            return self.layout, self.order
        return csr_layout(self.columns, self.rows, self.layout.shape[0])


@dataclass(frozen=True, eq=False)
class WeightedMatrix:
    """A matrix, to be multiplied with several times.

    Attributes:
        pattern: of its entries.
        values: float [e], in the order in which the places were given; may require a gradient.
    """

    pattern: SparsityPattern
    values: Tensor

    @cached_property
    def matrix(self) -> Tensor:
        """Sparse CSR [n, n], without a gradient."""
        return with_values(self.pattern.layout, self.values.detach()[self.pattern.order])

    @cached_property
    def transposed(self) -> Tensor:
        """Sparse CSR [n, n], likewise."""
        if self.pattern.symmetric:
            return self.matrix
        layout, order = self.pattern.of_transpose
        return with_values(layout, self.values.detach()[order])

    def product(self, dense: Tensor) -> Tensor:
        """Return the product with float [n, d].

        Differentiable in `dense` any number of times, or once if the values require a gradient.
        """
        if not torch.is_grad_enabled():
            return self.matrix @ dense
        if not self.values.requires_grad:
            return product(self.matrix, dense, self.transposed)
        result = _Product.apply(self.values, dense, self)  # type: ignore[no-untyped-call]
        return cast(Tensor, result)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, weighted: WeightedMatrix) -> Tensor:
        ctx.save_for_backward(dense)
        ctx.weighted = weighted
        return weighted.matrix @ dense

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (dense,), weighted = ctx.saved_tensors, ctx.weighted
        of_values = of_dense = None
        if ctx.needs_input_grad[0]:
            order = weighted.pattern.order
            in_order = sampled_product(weighted.matrix, gradient, dense)
            of_values = torch.empty_like(in_order).index_copy_(0, order, in_order)
        if ctx.needs_input_grad[1]:
            of_dense = weighted.transposed @ gradient
        return of_values, of_dense, None


def sampled_product(layout: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return float [e]: the entries of left @ right^T at the places of a sparse CSR matrix.

    On the CPU by torch's own, which makes no row for each entry.
    """
    by = _sampled_by_torch if left.is_cpu else sampled_by_rows
    return by(layout, left, right)


def _sampled_by_torch(layout: Tensor, left: Tensor, right: Tensor) -> Tensor:
    padding = (0, -left.shape[1] % COLUMNS)
    left, right = F.pad(left, padding), F.pad(right, padding)
    result: Tensor = torch.sparse.sampled_addmm(layout, left, right.T, beta=0.0).values()
    return result


def sampled_by_rows(layout: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return the same by the rows of both for each entry."""
    rows, columns, _ = entries(layout)
    return (left[rows] * right[columns]).sum(1)
