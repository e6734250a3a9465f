"""The best approximation of rank k to a graph's adjacency, as thin factors.

The truncated singular value decomposition of a symmetric matrix is U diag(v) U' of its k
eigenvalues v of largest magnitude: their magnitudes are the singular values.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from grb_check.victims.sparse import csr_block, csr_matrix

DENSE: Final = 512  # linked nodes up to which a dense solver is as fast
FILTERS: Final = 4  # passes of the filter; on Planetoid Cora the relative error is then 1e-7
DEGREE: Final = 20  # of the filter
ROUNDING: Final = 1e-6  # of the largest eigenvalue: smaller ones count as zero
SPARE: Final = 14  # extra vectors of the block, which make the others converge


def low_rank_adjacency(edge_index: Tensor, num_nodes: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return U float64 [num_nodes, k] with orthonormal columns and v float64 [k], k <= `rank`.

    Computed by subspace iteration with Chebyshev filters (Zhou et al. 2006) from a fixed block: the
    same edges give the same factors, in a time that does not depend on the gap between the singular
    values at the cut; if that is small, the factors are nearly the best ones. With at most `DENSE`
    linked nodes, a dense solver is used. Nodes without an edge have rows of zeros.

    Args:
        edge_index: int64 [2, e], both directions of each edge.
        num_nodes: N.
        rank: number of eigenvalues.
    """
    rows, columns = edge_index
    ones = torch.ones(rows.numel(), dtype=torch.float64, device=rows.device)
    linked = torch.bincount(rows, minlength=num_nodes).nonzero().squeeze(1)
    matrix = csr_block(csr_matrix(rows, columns, ones, num_nodes), linked, linked)
    small = linked.numel() <= max(DENSE, 2 * (rank + SPARE))
    values, found = (_dense if small else _filtered)(matrix, rank)
    vectors = found.new_zeros((num_nodes, values.numel()))
    return vectors.index_copy(0, linked, found), values


def _dense(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of largest magnitude [k] and orthonormal eigenvectors [n, k]."""
    values, vectors = torch.linalg.eigh(matrix.to_dense())
    return _largest(values, vectors, rank)


def _filtered(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the same as `_dense`, computed without an n x n array."""
    size, device = matrix.shape[0], matrix.device
    places = torch.arange(1.0, size + 1.0, dtype=torch.float64, device=device)[:, None]
    kinds = torch.arange(2.0, rank + SPARE + 2.0, dtype=torch.float64, device=device)
    block = torch.sin(places * kinds.sqrt())
    bound = (matrix.values().numel() / size) ** 0.5  # the root mean square of all eigenvalues
    for _ in range(FILTERS):
        block = _damped(matrix, block, bound)
        basis = torch.linalg.qr(block / block.norm(dim=0))[0]
        values, turn = torch.linalg.eigh(basis.T @ (matrix @ basis))
        magnitudes = values.abs()
        # If the rank is below the width of the block, the smallest is rounding, and the filter
        # would overflow.
        bound = max(float(magnitudes.min()), ROUNDING * float(magnitudes.max()))
        block = basis @ turn
    return _largest(values, block, rank)


def _damped(matrix: Tensor, block: Tensor, bound: float) -> Tensor:
    """Return a block times a Chebyshev polynomial that is small on [-bound, bound]."""
    before, now = block, (matrix @ block) / bound
    for _ in range(DEGREE - 1):
        before, now = now, torch.sub((matrix @ now).mul_(2.0 / bound), before)
    return now


def _largest(values: Tensor, vectors: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    best = values.abs().argsort(descending=True, stable=True)[:rank]
    return values[best], vectors[:, best]
