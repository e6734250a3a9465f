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

COLUMNS: Final = 8  # torch's sampled product is many times slower for other numbers than multiples


@dataclass(frozen=True, eq=False)
class Places:
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
    def of(cls, rows: Tensor, columns: Tensor, size: int, *, symmetric: bool = False) -> Places:
        """Return the places int64 [e] of a matrix [size, size]."""
        return cls(rows, columns, *csr_layout(rows, columns, size), symmetric)

    @property
    def are_distinct(self) -> bool:
        """Whether no place is given twice, without which there is no matrix to fill."""
        return self.order.numel() == self.rows.numel()

    @cached_property
    def turned(self) -> tuple[Tensor, Tensor]:
        """Layout and order of the transpose."""
        if self.symmetric:
            return self.layout, self.order
        return csr_layout(self.columns, self.rows, self.layout.shape[0])


@dataclass(frozen=True, eq=False)
class Filled:
    """A matrix, to be multiplied with several times.

    Attributes:
        places: of its entries.
        values: float [e], in the order in which the places were given; may require a gradient.
    """

    places: Places
    values: Tensor

    @cached_property
    def matrix(self) -> Tensor:
        """Sparse CSR [n, n], without a gradient."""
        return with_values(self.places.layout, self.values.detach()[self.places.order])

    @cached_property
    def transposed(self) -> Tensor:
        """Sparse CSR [n, n], likewise."""
        if self.places.symmetric:
            return self.matrix
        layout, order = self.places.turned
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
    def forward(ctx: Any, values: Tensor, dense: Tensor, filled: Filled) -> Tensor:
        ctx.save_for_backward(dense)
        ctx.filled = filled
        return filled.matrix @ dense

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (dense,), filled = ctx.saved_tensors, ctx.filled
        of_values = of_dense = None
        if ctx.needs_input_grad[0]:
            order = filled.places.order
            in_order = sampled(filled.matrix, gradient, dense)
            of_values = torch.empty_like(in_order).index_copy_(0, order, in_order)
        if ctx.needs_input_grad[1]:
            of_dense = filled.transposed @ gradient
        return of_values, of_dense, None


def sampled(layout: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return float [e]: the entries of left @ right^T at the places of a sparse CSR matrix.

    On the CPU by torch's own, which makes no row for each entry.
    """
    return _by_torch(layout, left, right) if left.is_cpu else by_rows(layout, left, right)


def _by_torch(layout: Tensor, left: Tensor, right: Tensor) -> Tensor:
    padding = (0, -left.shape[1] % COLUMNS)
    left, right = F.pad(left, padding), F.pad(right, padding)
    result: Tensor = torch.sparse.sampled_addmm(layout, left, right.T, beta=0.0).values()
    return result


def by_rows(layout: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return the same by the rows of both for each entry."""
    rows, columns, _ = entries(layout)
    return (left[rows] * right[columns]).sum(1)
