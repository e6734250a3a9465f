"""Graphs as torch's sparse matrices, and products with them."""

from __future__ import annotations

import warnings
from typing import Any, cast

import scipy.sparse as sp
import torch
from torch import Tensor


def csr_matrix(rows: Tensor, columns: Tensor, values: Tensor, size: int) -> Tensor:
    """Return the sparse CSR matrix float [size, size] with these entries.

    Args:
        rows, columns: int64 [e], distinct places in any order.
        values: float [e].
        size: number of rows and of columns.
    """
    if rows.device.type == "cpu":  # in linear time, where torch could only sort
        ends = (rows.numpy(), columns.numpy())
        matrix = sp.csr_matrix((values.numpy(), ends), shape=(size, size))
        matrix.sort_indices()
        starts, indices = torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices)
        return _csr(starts, indices, torch.from_numpy(matrix.data), (size, size))
    order = (rows * size + columns).argsort()
    return _csr(_starts(rows, size), columns[order], values[order], (size, size))


def csr_layout(rows: Tensor, columns: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return a sparse CSR matrix with entries at these places, for `with_values`, and their order.

    Args:
        rows, columns: int64 [e], distinct places in any order.
        size: rows and columns of the matrix.

    Returns:
        the matrix, whose values mean nothing, and int64 [e]: which of the given places each of its
        entries is at.
    """
    numbers = torch.arange(rows.numel(), dtype=torch.float64, device=rows.device)
    layout = csr_matrix(rows, columns, numbers, size)
    return layout, layout.values().long()


def csr_block(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the block [m, k] of a sparse CSR matrix at the given rows and columns.

    Args:
        matrix: sparse CSR [a, b].
        rows, columns: int64 [m] and [k], ascending.
    """
    every_row, every_column, values = entries(matrix)
    new_row = positions_of(rows, matrix.shape[0])[every_row]
    new_column = positions_of(columns, matrix.shape[1])[every_column]
    inside = ((new_row >= 0) & (new_column >= 0)).nonzero().squeeze(1)
    starts = _starts(new_row[inside], rows.numel())
    return _csr(starts, new_column[inside], values[inside], (rows.numel(), columns.numel()))


def entries(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows int64 [e], columns int64 [e] and values [e] of a sparse CSR matrix."""
    counts = matrix.crow_indices().diff().long()
    rows = torch.arange(matrix.shape[0], device=counts.device).repeat_interleave(counts)
    return rows, matrix.col_indices().long(), matrix.values()


def with_values(matrix: Tensor, values: Tensor) -> Tensor:
    """Return the sparse CSR matrix with other values [e] at its places, row by row."""
    return _csr(matrix.crow_indices(), matrix.col_indices(), values, tuple(matrix.shape))


def with_long_indices(matrix: Tensor) -> Tensor:
    """Return a sparse CSR matrix with int64 indices, as modules of users need it.

    PyG's layers pass these indices to `scatter_add`, which rejects int32 in older torch versions
    and gives wrong gradients with it in newer ones (seen in 2.13).
    """
    starts, columns = matrix.crow_indices().long(), matrix.col_indices().long()
    return _unchecked_csr(starts, columns, matrix.values(), tuple(matrix.shape))


def coo_matrix(rows: Tensor, columns: Tensor, values: Tensor, size: int) -> Tensor:
    """Return the coalesced sparse COO matrix float [size, size]; duplicate entries are summed."""
    return torch.sparse_coo_tensor(
        torch.stack([rows, columns]), values, (size, size), check_invariants=False
    ).coalesce()


def symmetric_product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Return matrix @ dense, differentiable in `dense` any number of times.

    Args:
        matrix: sparse CSR [n, n], symmetric, which is not checked; it gets no gradient.
        dense: float [n, d].
    """
    return product(matrix, dense, matrix)


def product(matrix: Tensor, dense: Tensor, transposed: Tensor) -> Tensor:
    """Return matrix @ dense, differentiable in `dense` any number of times.

    With the transpose given, the gradient needs no transposition, which torch's own backward pass
    makes on every call.

    Args:
        matrix: sparse CSR [n, m]; it gets no gradient.
        dense: float [m, d].
        transposed: of the matrix, sparse CSR [m, n].
    """
    return cast(Tensor, _Product.apply(dense, matrix, transposed))  # type: ignore[no-untyped-call]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        ctx.matrices = matrix, transposed
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        matrix, transposed = ctx.matrices
        return product(transposed, gradient, matrix), None, None


def positions_of(ids: Tensor, size: int) -> Tensor:
    """Return int64 [size]: the position of each number in `ids`, -1 if it is not there."""
    positions = torch.full((size,), -1, device=ids.device)
    positions[ids] = torch.arange(ids.numel(), device=ids.device)
    return positions


def _starts(rows: Tensor, size: int) -> Tensor:
    """Return int64 [size + 1]: where each row begins among entries that are sorted by row."""
    starts = torch.zeros(size + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=size), dim=0, out=starts[1:])
    return starts


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    # MKL takes int32 indices; any others are converted on every product.
    small = max(values.numel(), *shape) < 2**31
    index = torch.int32 if small else torch.int64
    return _unchecked_csr(starts.to(index), columns.to(index), values, shape)


def _unchecked_csr(
    starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]
) -> Tensor:
    with warnings.catch_warnings():
        # torch warns once per process that its CSR layout is beta; users cannot act on it.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


def pair_codes(edges: Tensor, num_nodes: int) -> Tensor:
    """Return int64 [e] for edges int64 [2, e]: a number that both directions of a pair have."""
    return edges.amin(0) * num_nodes + edges.amax(0)
