"""Matrices whose entries are differentiable functions of edge weights.

Models that are called with `adj_t` or `adj` are given these. The matrix that a model's
`adj_norm_func` computes is not differentiable. If it equals a `Normalisation` on the graph at hand,
up to a constant factor and with one of the exponents of `_EXPONENTS`, that formula is used in its
place. GRB's own functions are of this form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Final

import torch
from torch import Tensor

from grb_check.datasets.given_edges import SeenEdges
from grb_check.errors import GradientError
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.adapter import Adapter
from grb_check.victims.sparse import coo_matrix, csr_layout, with_long_indices, with_values

MatrixOf = Callable[[Tensor], object]  # weights float [e] -> argument of the model
# Symmetric and by rows or columns; (-1, -1) is GRB's RobustGCN; (0, 0) normalises nothing.
_EXPONENTS: Final = ((-0.5, -0.5), (-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0), (0.0, 0.0))
_TOLERANCE: Final = 1e-5  # relative, of entries in float32


def csr_of(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> dict[str, MatrixOf]:
    """Return functions that make the adapter's arguments `adj_t` and `adj` as sparse CSR matrices.

    Raises:
        GradientError: no normalisation fits its `adj_norm_func`.
    """
    result: dict[str, MatrixOf] = {}
    seen = adapter.seen(edge_index, num_nodes)
    if "adj_t" in adapter.convention.roles:
        matrix_of = _csr(seen.edge_index.flip(0), num_nodes, Normalisation(0.0, 0.0, 0.0))
        result["adj_t"] = _of_seen(matrix_of, seen)
    if "adj" in adapter.convention.roles:
        plain = adapter.adjacency(edge_index, num_nodes)
        result["adj"] = _of_seen(_each(plain, seen, num_nodes, _csr_like), seen)
    return result


def as_called(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> dict[str, MatrixOf]:
    """Return `csr_of` with `adj` in the layout that the model is called with, which may be dense.

    The gradient of a product with such a matrix takes a dense N x N matrix: 4 N^2 bytes.
    """
    result = csr_of(adapter, edge_index, num_nodes)
    if "adj" in result:
        plain, seen = adapter.adjacency(edge_index, num_nodes), adapter.seen(edge_index, num_nodes)
        result["adj"] = _of_seen(_each(plain, seen, num_nodes, _same_layout), seen)
    return result


def _of_seen(matrix_of: MatrixOf, seen: SeenEdges) -> MatrixOf:
    """Return a function of the weights of undirected edges from one of all edges."""
    return lambda weights: matrix_of(seen.weights(weights))


def _each(
    plain: object,
    seen: SeenEdges,
    num_nodes: int,
    make: Callable[[Tensor, Tensor, int, Normalisation], MatrixOf],
) -> MatrixOf:
    if isinstance(plain, tuple):
        every = [_each(part, seen, num_nodes, make) for part in plain]
        return lambda weights: tuple(matrix_of(weights) for matrix_of in every)
    if not isinstance(plain, Tensor) or plain.shape != (num_nodes, num_nodes):
        raise GradientError(
            f"adj_norm_func must return matrices [{num_nodes}, {num_nodes}] for edge weights"
        )
    norm = _normalisation(plain, seen.edge_index, seen.weights(), num_nodes)
    return make(plain, seen.edge_index, num_nodes, norm)


def _csr_like(plain: Tensor, edge_index: Tensor, num_nodes: int, norm: Normalisation) -> MatrixOf:
    return _csr(edge_index, num_nodes, norm)


def _csr(edge_index: Tensor, num_nodes: int, norm: Normalisation) -> MatrixOf:
    # Edges beside each other, or a self-loop of the data beside that of the rule, have one place.
    rows, columns = norm.places(edge_index, num_nodes)
    places, of_entries = torch.unique(rows * num_nodes + columns, return_inverse=True)
    layout, order = csr_layout(places // num_nodes, places % num_nodes, num_nodes)

    def matrix(weights: Tensor) -> Tensor:
        entries = norm.entries(edge_index, num_nodes, weights)
        values = entries.new_zeros(places.numel()).index_add(0, of_entries, entries)
        return with_long_indices(with_values(layout, values[order]))

    return matrix


def _same_layout(
    plain: Tensor, edge_index: Tensor, num_nodes: int, norm: Normalisation
) -> MatrixOf:
    if plain.layout == torch.sparse_csr:
        return _csr(edge_index, num_nodes, norm)
    rows, columns = norm.places(edge_index, num_nodes)

    def matrix(weights: Tensor) -> Tensor:
        values = norm.entries(edge_index, num_nodes, weights)
        if plain.layout == torch.sparse_coo:
            return coo_matrix(rows, columns, values, num_nodes)
        zeros = values.new_zeros(num_nodes, num_nodes)
        return zeros.index_put((rows, columns), values, accumulate=True)

    return matrix


def _normalisation(
    plain: Tensor, edge_index: Tensor, weights: Tensor, num_nodes: int
) -> Normalisation:
    """Return the normalisation that yields a matrix for edges with these weights."""
    flat: Tensor = torch.Tensor.to_sparse(plain).coalesce()
    given = weights.to(flat)
    for loop, (left, right), by_rows in product((1.0, 0.0), _EXPONENTS, (False, True)):
        norm = Normalisation(left, right, loop, by_rows=by_rows)
        rows, columns = norm.places(edge_index, num_nodes)
        values = norm.entries(edge_index, num_nodes, given)
        needed = coo_matrix(rows, columns, values, num_nodes)
        largest = float(needed.values().max()) if rows.numel() else 0.0
        factor = float(flat.values().max()) / largest if largest and flat._nnz() else 1.0
        error = (flat - factor * needed).coalesce().values().abs()
        if not error.numel() or float(error.max()) <= _TOLERANCE * abs(factor) * largest:
            return replace(norm, factor=factor)
    raise GradientError("adj_norm_func is not one of the known normalisations by degrees")
