"""The best approximation of rank k to a graph's adjacency, as thin factors.

The truncated singular value decomposition of a symmetric matrix is U diag(v) U' of its k
eigenvalues v of largest magnitude: their magnitudes are the singular values.

If A changes by dA, the truncation A_k = U diag(v) U' changes, to first order, by

    P dA P + sum_i v_i (u_i u_i' dA R_i + R_i dA u_i u_i'),    P = U U',
    R_i = Q (v_i - A)^-1 Q,    Q = I - P

where i is one of the k that are kept. Since no other eigenvalue has a larger magnitude, v_i - A has
one sign on Q, and the gradient takes one conjugate gradient solution for each i. If two eigenvalues
at the cut have nearly the same magnitude, the truncation nearly jumps; the number of iterations
then limits the gradient.
"""

from __future__ import annotations

from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from grb_check.victims.sparse import csr_block, csr_matrix

DENSE: Final = 512  # linked nodes up to which a dense solver is as fast
FILTERS: Final = 4  # passes of the filter; on Planetoid Cora the relative error is then 1e-7
DEGREE: Final = 20  # of the filter
ROUNDING: Final = 1e-6  # of the largest eigenvalue: smaller ones count as zero
SPARE: Final = 14  # extra vectors of the block, which make the others converge
SOLVED: Final = 1e-5  # relative residual of the solutions for the gradient
ITERATIONS: Final = 60  # for them, at most
EDGES: Final = 65_536  # whose gradients are computed at a time


def low_rank_adjacency(
    edge_index: Tensor, num_nodes: int, rank: int, edge_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return U float64 [num_nodes, k] with orthonormal columns and v float64 [k], k <= `rank`.

    Computed by subspace iteration with Chebyshev filters (Zhou et al. 2006) from a fixed block: the
    same edges give the same factors, in a time that does not depend on the gap between the singular
    values at the cut; if that is small, the factors are nearly the best ones. With at most `DENSE`
    linked nodes, a dense solver is used. Nodes without an edge have rows of zeros.

    Args:
        edge_index: int64 [2, e], both directions of each edge.
        num_nodes: N.
        rank: number of eigenvalues.
        edge_weight: float [e], the same in both directions, not negative; default: ones. The
            factors have a gradient in it, which is right for functions of U diag(v) U' only, and
            cannot be differentiated again.
    """
    if edge_weight is not None:
        factors = _LowRank.apply(edge_weight, edge_index, num_nodes, rank)  # type: ignore[no-untyped-call]
        return cast("tuple[Tensor, Tensor]", factors)
    ones = torch.ones(edge_index.shape[1], dtype=torch.float64, device=edge_index.device)
    return _factors(edge_index, ones, num_nodes, rank)


def _factors(
    edge_index: Tensor, weights: Tensor, num_nodes: int, rank: int
) -> tuple[Tensor, Tensor]:
    rows, columns = edge_index
    linked = torch.bincount(rows, minlength=num_nodes).nonzero().squeeze(1)
    matrix = csr_block(csr_matrix(rows, columns, weights, num_nodes), linked, linked)
    small = linked.numel() <= max(DENSE, 2 * (rank + SPARE))
    values, result = (_dense if small else _filtered)(matrix, rank)
    vectors = result.new_zeros((num_nodes, values.numel()))
    return vectors.index_copy(0, linked, result), values


class _LowRank(torch.autograd.Function):
    """`low_rank_adjacency` of weighted edges; those of weight 0 have a gradient, too."""

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, edge_index: Tensor, num_nodes: int, rank: int
    ) -> tuple[Tensor, Tensor]:
        present = weights != 0
        edges, entries = edge_index[:, present], weights[present].double()
        vectors, values = _factors(edges, entries, num_nodes, rank)
        ctx.save_for_backward(vectors, values, weights, edge_index)
        return vectors, values

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_vectors: Tensor, of_values: Tensor
    ) -> tuple[Tensor, None, None, None]:
        vectors, values, weights, edge_index = ctx.saved_tensors
        present = weights != 0
        rows, columns = edge_index[:, present]
        matrix = csr_matrix(rows, columns, weights[present].double(), vectors.shape[0])
        # The gradient in A is U Y' + Y U'.
        inside = vectors @ _inside(vectors.T @ of_vectors, of_values, values)
        other = 0.5 * (inside + _outside(matrix, vectors, values, of_vectors))
        parts = [
            (vectors[i] * other[j] + other[i] * vectors[j]).sum(dim=1)
            for i, j in zip(*(torch.split(ends, EDGES) for ends in edge_index), strict=True)
        ]
        return torch.cat(parts).to(weights.dtype), None, None, None


def _inside(of_vectors: Tensor, of_values: Tensor, values: Tensor) -> Tensor:
    """Return U' G U [k, k] for the gradient G in A_k.

    G U diag(v) is half the gradient in U, so that each entry off the diagonal is found twice, once
    with each of two eigenvalues; of these, the one with the larger eigenvalue counts more.

    Args:
        of_vectors: [k, k], U' times the gradient in U.
        of_values: [k], the gradient in v, which is the diagonal.
        values: v [k].
    """
    weighted = of_vectors * values
    squares = values.square()
    total = 2 * (squares[:, None] + squares)
    known = total > ROUNDING**2 * squares.sum()
    result = torch.where(known, (weighted + weighted.T) / torch.where(known, total, 1.0), 0.0)
    return result - result.diag().diag() + of_values.diag()


def _outside(matrix: Tensor, vectors: Tensor, values: Tensor, of_vectors: Tensor) -> Tensor:
    """Return R_i g_i [n, k] for the columns g_i [n, k] of the gradient in U.

    Solved by conjugate gradients, each column with its own shift. Eigenvalues of 0 are left out,
    and directions in which v_i - A is 0 but for rounding: an eigenvalue outside equals v_i.
    """
    sign, size = values.sign(), values.abs()
    counting = size > ROUNDING * values.norm()
    right = sign * torch.where(counting, of_vectors, 0.0)
    residual = right - vectors @ (vectors.T @ right)
    solution, direction = torch.zeros_like(residual), residual
    square = residual.square().sum(dim=0)
    enough = SOLVED**2 * square
    for _ in range(ITERATIONS):
        image = size * direction - sign * (matrix @ direction)
        image = image - vectors @ (vectors.T @ image)
        curvature = (direction * image).sum(dim=0)
        flat = ROUNDING * size * direction.square().sum(dim=0)
        running = (square > enough) & (curvature > flat)
        if not bool(running.any()):
            break
        step = torch.where(running, square / torch.where(running, curvature, 1.0), 0.0)
        solution = solution + step * direction
        residual = residual - step * image
        before, square = square, residual.square().sum(dim=0)
        direction = residual + torch.where(running, square / before, 0.0) * direction
    return solution


def _dense(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of largest magnitude [k] and orthonormal eigenvectors [n, k]."""
    values, vectors = torch.linalg.eigh(matrix.to_dense())
    return _largest(values, vectors, rank)


def _filtered(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the same as `_dense`, computed without an n x n array."""
    size, device = matrix.shape[0], matrix.device
    positions = torch.arange(1.0, size + 1.0, dtype=torch.float64, device=device)[:, None]
    kinds = torch.arange(2.0, rank + SPARE + 2.0, dtype=torch.float64, device=device)
    block = torch.sin(positions * kinds.sqrt())
    bound = (
        float(matrix.values().square().sum()) / size
    ) ** 0.5  # the root mean square of all eigenvalues
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
