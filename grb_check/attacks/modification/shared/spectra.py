r"""The spectrum of the filter S = D^{-1/2} (A + I) D^{-1/2}, and its changes by flips of edges.

D holds the degrees of A + I. S has the eigenvalues :math:`\lambda` of (A + I) u = :math:`\lambda`
D u, with u' D u = 1. To first order, flipping the pair (i, j) changes each by

.. math:: \Delta\lambda = \pm (2 u_i u_j - \lambda (u_i^2 + u_j^2)),

plus for an added edge, minus for a removed one (Bojchevski & Günnemann 2019, theorem 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FILTERS: Final = 4  # times that a block is filtered
DEGREE: Final = 20  # of the filter's polynomial
BOUND: Final = 0.99  # highest upper end of the interval that it damps
SPARE: Final = 12  # extra vectors of the block, for convergence of the others
SAME: Final = 1e-5  # eigenvalues closer than this count as equal
BLOCK: Final = 65_536  # pairs at once


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The largest eigenvalues below the trivial ones.

    The eigenvalue 1 occurs once for each connected component, with a constant vector on it; no flip
    inside a component changes it. These trivial ones are left out.

    Attributes:
        values: float64 [k], descending; the last ones are left out if they may be part of a larger
            group of equal values.
        vectors: float64 [N, k], u' D u = 1.
        component: int64 [N], of each node.
        volume: float64 [number of components], sum of the entries of D.
    """

    values: Floats
    vectors: Floats
    component: Integers
    volume: Floats


def leading_spectrum(adjacency: Any, count: int) -> Spectrum:
    """Return at most `count` eigenpairs of the filter of an adjacency [N, N] without loops.

    By subspace iteration with Chebyshev filters (Zhou et al. 2006) from a fixed block, which finds
    all copies of equal eigenvalues in a time that does not depend on gaps between eigenvalues; by a
    dense solver if there are at most four nodes per eigenpair.
    """
    num_nodes = adjacency.shape[0]
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel() + 1.0
    scale = sp.diags_array(degrees**-0.5)
    matrix = sp.csr_array(scale @ (adjacency + sp.eye_array(num_nodes)) @ scale)
    components, component = connected_components(adjacency, directed=False)
    volume = np.bincount(component, degrees, minlength=components).astype(np.float64)
    trivial = sp.csr_array(
        (np.sqrt(degrees / volume[component]), (np.arange(num_nodes), component)),
        shape=(num_nodes, components),
    )
    others = num_nodes - components
    requested = min(count, others)
    solver = _dense if num_nodes <= 4 * count or 2 * (requested + SPARE) > others else _filtered
    values, vectors = solver(matrix, trivial, requested)
    if requested < others:
        whole = values > values[-1] + SAME
        values, vectors = values[whole], vectors[:, whole]
    vectors = vectors * degrees[:, None] ** -0.5
    return Spectrum(values, vectors, component.astype(np.int64), volume)


def _dense(matrix: Any, trivial: Any, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues [wanted], descending, and orthonormal vectors [N, wanted].

    The trivial eigenvalues are shifted below -1. Only nodes with an edge are considered, of which
    there are few if this is called for a large graph.
    """
    linked = np.flatnonzero(np.diff(matrix.indptr) > 1)
    inner, shift = matrix[linked][:, linked].toarray(), trivial[linked]
    values, vectors = np.linalg.eigh(inner - 3.0 * (shift @ shift.T).toarray())
    best = np.arange(linked.size - 1, linked.size - 1 - count, -1)
    result = np.zeros((matrix.shape[0], count))
    result[linked] = vectors[:, best]
    return values[best], result


def _filtered(matrix: Any, trivial: Any, count: int) -> tuple[Floats, Floats]:
    """As `_dense`, without an N x N array."""
    positions = np.arange(1.0, matrix.shape[0] + 1.0)[:, None]
    block = np.sin(positions * np.sqrt(np.arange(2.0, count + SPARE + 2.0)))
    transposed = sp.csr_array(trivial.T)
    bound = 0.0  # eigenvalues from -1 to here are damped
    for _ in range(FILTERS):
        block = _chebyshev(matrix, block, (-1.0, bound))
        block -= trivial @ (transposed @ block)
        basis = np.linalg.qr(block)[0]
        values, turn = np.linalg.eigh(basis.T @ (matrix @ basis))
        block, bound = basis @ turn, min(float(values[0]), BOUND)
    best = np.arange(values.size - 1, values.size - 1 - count, -1)
    return values[best], block[:, best]


def _chebyshev(matrix: Any, block: Floats, damped: tuple[float, float]) -> Floats:
    """Apply the Chebyshev polynomial of the matrix, scaled to an interval, to a block."""
    low, high = damped
    middle, half = (high + low) / 2, (high - low) / 2
    before, now = block, (matrix @ block - middle * block) / half
    for _ in range(DEGREE - 1):
        before, now = now, 2.0 / half * (matrix @ now - middle * now) - before
    return np.asarray(now)


def weighted_changes(
    spectrum: Spectrum, weights: Floats, pairs: Integers, *, added: bool
) -> Floats:
    """Return the weighted sum of the eigenvalues' first-order changes by each pair.

    It does not depend on the basis of equal eigenvalues if these have equal weights.

    Args:
        spectrum: k eigenpairs.
        weights: float64 [k].
        pairs: int64 [2, m], each flipped alone.
        added: whether they are added or removed.

    Returns:
        float64 [m].
    """
    weighted = spectrum.vectors * (2.0 * weights)
    node_terms: Floats = (spectrum.vectors**2) @ (weights * spectrum.values)
    first, second = pairs
    changes: Floats = -node_terms[first] - node_terms[second]
    for start in range(0, first.size, BLOCK):
        part = slice(start, start + BLOCK)
        changes[part] += (weighted[first[part]] * spectrum.vectors[second[part]]).sum(axis=1)
    return changes if added else -changes


def trivial_changes(spectrum: Spectrum, pairs: Integers, *, added: bool) -> Floats:
    """Return the sum of the trivial eigenvalues' first-order changes by each pair, float64 [m].

    Only edges between two components change them.
    """
    first, second = spectrum.component[pairs]
    inverse = 1.0 / spectrum.volume
    changes = np.where(first == second, 0.0, -inverse[first] - inverse[second])
    return np.asarray(changes if added else -changes)


def energy_changes(adjacency: Any, pairs: Integers, *, added: bool) -> Floats:
    r"""Return the exact change of :math:`\sum_p \lambda_p^2` over the whole spectrum, float64 [m].

    That is the squared Frobenius norm of S,

    .. math:: \sum_i \frac{1}{d_i^2} + 2 \sum_{(i, j) \in E} \frac{1}{d_i d_j},

    and a flip changes only the terms with its two ends.

    Args:
        adjacency: sparse float64 [N, N] without loops.
        pairs: int64 [2, m]; edges if they are removed, otherwise non-edges.
        added: whether they are added or removed.
    """
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel() + 1.0
    around = adjacency @ (1.0 / degrees)  # sum of 1 / d over the neighbours, [N]
    old = degrees[pairs]
    new = old + 1.0 if added else old - 1.0
    others = around[pairs] - (0.0 if added else 1.0 / old[::-1])
    at_ends = new**-2 - old**-2 + 2.0 * others * (1.0 / new - 1.0 / old)
    between = 2.0 / (new if added else old).prod(axis=0)
    changes: Floats = at_ends.sum(axis=0) + (between if added else -between)
    return changes


def energy(adjacency: Any) -> float:
    """Return the sum of the squares of all eigenvalues."""
    inverse = 1.0 / (np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel() + 1.0)
    return float(inverse @ inverse + inverse @ (adjacency @ inverse))
