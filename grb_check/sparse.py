"""Edges as torch's own sparse matrices."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor


def csr_matrix(rows: Tensor, columns: Tensor, values: Tensor, size: int) -> Tensor:
    """The sparse CSR matrix float [size, size] of entries that stand once each, in any order.

    Args:
        rows, columns: int64 [e].
        values: float [e].
    """
    order = (rows * size + columns).argsort()
    starts = torch.zeros(size + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=size), dim=0, out=starts[1:])
    with warnings.catch_warnings():
        # torch calls its CSR layout beta, once a process; users can do nothing about it.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            starts, columns[order], values[order], (size, size), check_invariants=False
        )


def coo_matrix(rows: Tensor, columns: Tensor, values: Tensor, size: int) -> Tensor:
    """The coalesced sparse COO matrix float [size, size]; entries at one place are summed."""
    return torch.sparse_coo_tensor(
        torch.stack([rows, columns]), values, (size, size), check_invariants=False
    ).coalesce()
