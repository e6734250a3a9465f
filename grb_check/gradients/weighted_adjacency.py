"""Adjacency matrices whose entries are differentiable functions of edge weights.

For models that are called with `adj_t` or `adj`. The matrix that a model's `adj_norm_func` computes
is not differentiable. If it equals a `Normalisation` on the graph at hand, up to a constant factor
and with one of the exponents of `_EXPONENTS`, that formula is used in its place. GRB's own
functions are of this form.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

import torch
from torch import Tensor

from grb_check.errors import GradientError
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.conventions import Adapter
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
    found: dict[str, MatrixOf] = {}
    if "adj_t" in adapter.convention.roles:
        found["adj_t"] = _csr(edge_index.flip(0), num_nodes, Normalisation(0.0, 0.0, 0.0))
    if "adj" in adapter.convention.roles:
        plain = adapter.adjacency(edge_index, num_nodes)
        found["adj"] = _each(plain, edge_index, num_nodes, _csr_like)
    return found


def as_called(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> dict[str, MatrixOf]:
    """Return `csr_of` with `adj` in the layout that the model is called with, which may be dense.

    The gradient of a product with such a matrix takes a dense N x N matrix: 4 N^2 bytes.
    """
    found = csr_of(adapter, edge_index, num_nodes)
    if "adj" in found:
        plain = adapter.adjacency(edge_index, num_nodes)
        found["adj"] = _each(plain, edge_index, num_nodes, _same_layout)
    return found


def _each(
    plain: object,
    edge_index: Tensor,
    num_nodes: int,
    make: Callable[[Tensor, Tensor, int, Normalisation], MatrixOf],
) -> MatrixOf:
    if isinstance(plain, tuple):
        every = [_each(part, edge_index, num_nodes, make) for part in plain]
        return lambda weights: tuple(matrix_of(weights) for matrix_of in every)
    if not isinstance(plain, Tensor) or plain.shape != (num_nodes, num_nodes):
        raise GradientError(
            f"adj_norm_func must return matrices [{num_nodes}, {num_nodes}] for edge weights"
        )
    return make(plain, edge_index, num_nodes, _normalisation(plain, edge_index, num_nodes))


def _csr_like(plain: Tensor, edge_index: Tensor, num_nodes: int, norm: Normalisation) -> MatrixOf:
    return _csr(edge_index, num_nodes, norm)


def _csr(edge_index: Tensor, num_nodes: int, norm: Normalisation) -> MatrixOf:
    rows, columns = norm.places(edge_index, num_nodes)
    layout, order = csr_layout(rows, columns, num_nodes)

    def matrix(weights: Tensor) -> Tensor:
        values = norm.entries(edge_index, num_nodes, weights)[order]
        return with_long_indices(with_values(layout, values))

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
        return zeros.index_put((rows, columns), values)

    return matrix


def _normalisation(plain: Tensor, edge_index: Tensor, num_nodes: int) -> Normalisation:
    """Return the normalisation that yields a matrix for edges of weight 1."""
    flat: Tensor = torch.Tensor.to_sparse(plain).coalesce()
    ones = torch.ones(edge_index.shape[1], dtype=flat.dtype, device=flat.device)
    for loop, (left, right) in product((1.0, 0.0), _EXPONENTS):
        norm = Normalisation(left, right, loop)
        rows, columns = norm.places(edge_index, num_nodes)
        values = norm.entries(edge_index, num_nodes, ones)
        wanted = coo_matrix(rows, columns, values, num_nodes)
        largest = float(wanted.values().max()) if rows.numel() else 0.0
        factor = float(flat.values().max()) / largest if largest and flat._nnz() else 1.0
        error = (flat - factor * wanted).coalesce().values().abs()
        if not error.numel() or float(error.max()) <= _TOLERANCE * abs(factor) * largest:
            return Normalisation(left, right, loop, factor)
    raise GradientError("adj_norm_func is not one of the known normalisations by degrees")
