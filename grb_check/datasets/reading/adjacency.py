"""Sparse matrices as scipy saves them, checked, and the undirected edges that they describe."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from grb_check.datasets.reading.npz import integers
from grb_check.datasets.source import DataChange
from grb_check.errors import DataError, count

IntArray = NDArray[np.int64]

_LAYOUTS: Final = {
    "csr": ("indptr", "indices"),
    "csc": ("indptr", "indices"),
    "coo": ("row", "col"),
}


def read_matrix(arrays: Mapping[str, NDArray[Any]], where: str) -> sp.csr_array:
    """Return a square matrix saved by `scipy.sparse.save_npz`, without its stored zeros.

    A csc matrix is returned transposed: its arrays need no copy, and undirected edges are the same.

    Args:
        arrays: key -> array of the file; csr, csc or coo. The memory used depends on the shape that
            the file claims: check `num_nodes_of` first.
        where: the file, for messages.

    Returns:
        [num_nodes, num_nodes] with int32 indices, not necessarily sorted or free of duplicates;
        int8 values, 1 for a stored 1 and 2 for any other weight.

    Raises:
        DataError: a key is missing, or indices and shape do not make a square matrix.
    """
    layout = _layout(arrays, where)
    keys = ("shape", "data", *_LAYOUTS[layout])
    absent = [key for key in keys if key not in arrays]
    if absent:
        raise DataError(
            f"{where}: key {absent[0]!r} is missing; it has {', '.join(map(repr, arrays))}"
        )
    num_nodes = num_nodes_of(arrays, where)
    values = _weights(arrays["data"], where)
    first, second = (_row(arrays[key], f"{where}: {key}") for key in _LAYOUTS[layout])
    if layout != "coo":
        _check_indptr(first, second.size, where)
    lengths = {second.size, values.size, *([first.size] if layout == "coo" else [])}
    if len(lengths) > 1:
        msg = f"{where}: indices and data have the lengths {sorted(lengths)}; they must be equal"
        raise DataError(msg)
    second = node_ids(second, num_nodes, where)
    if layout == "coo":
        first = node_ids(first, num_nodes, where)
        return matrix_of(values, first, second, num_nodes)
    matrix = sp.csr_array((values, second, first.astype(np.int64)), shape=(num_nodes, num_nodes))
    if values.all():
        return matrix
    return matrix_of(values, _rows(matrix), second, num_nodes)


def num_nodes_of(arrays: Mapping[str, NDArray[Any]], where: str) -> int:
    """Return the number of nodes that the matrix claims to have.

    Raises:
        DataError: the shape is missing, or is not that of a square matrix.
    """
    if "shape" not in arrays:
        raise DataError(f"{where}: key 'shape' is missing; it has {', '.join(map(repr, arrays))}")
    shape = integers(arrays["shape"], f"{where}: shape")
    if shape.size != 2 or shape[0] != shape[1] or not 0 < shape[0] <= np.iinfo(np.int32).max:
        raise DataError(
            f"{where}: shape {shape.tolist()} is not that of an adjacency matrix [nodes, nodes]"
        )
    num_nodes = int(shape[0])
    rows = arrays["indptr"].size - 1 if "indptr" in arrays else num_nodes
    if rows != num_nodes:
        msg = (
            f"{where}: indptr has {count(rows + 1, 'value')}; for {count(num_nodes, 'node')} "
            f"it needs {num_nodes + 1}"
        )
        raise DataError(msg)
    return num_nodes


def matrix_of(
    weights: NDArray[np.int8], rows: NDArray[Any], columns: NDArray[Any], num_nodes: int
) -> sp.csr_array:
    """Return entries in csr layout, without zeros; duplicates, which scipy would add up, stay.

    Args:
        weights: int8 [e].
        rows: int32 [e], below num_nodes; likewise `columns`.
        columns: see `rows`.
        num_nodes: number of rows and columns.
    """
    stored = np.flatnonzero(weights)
    order = stored[np.argsort(rows[stored], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[order], minlength=num_nodes))])
    shape = (num_nodes, num_nodes)
    return sp.csr_array((weights[order], columns[order], indptr), shape=shape)


def node_ids(nodes: NDArray[Any], num_nodes: int, where: str) -> NDArray[np.int32]:
    """Return integers of any shape as int32: the same array if it has that type.

    Raises:
        DataError: an integer is not a node.
    """
    if nodes.size and (int(nodes.min()) < 0 or int(nodes.max()) >= num_nodes):
        outside = nodes[(nodes < 0) | (nodes >= num_nodes)]
        msg = (
            f"{where}: {count(outside.size, 'index lies', 'indices lie')} outside "
            f"0 .. {num_nodes - 1}, the first is {int(outside[0])}"
        )
        raise DataError(msg)
    return nodes.astype(np.int32, copy=False)


def matrix_of_pairs(pairs: NDArray[Any], num_nodes: int, where: str) -> sp.csr_array:
    """Return the matrix with an entry of 1 for each pair.

    Args:
        pairs: int [2, e] node ids.
        num_nodes: number of nodes.
        where: what the pairs are, for messages.

    Raises:
        DataError: they have another dtype or shape, or one is not a node.
    """
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        shape = "x".join(map(str, pairs.shape)) or "scalar"
        raise DataError(f"{where} must be node ids [2, edges], not {pairs.dtype} [{shape}]")
    rows, columns = node_ids(pairs, num_nodes, where)
    return matrix_of(np.ones(rows.size, dtype=np.int8), rows, columns, num_nodes)


def undirected_edges(matrix: sp.csr_array, where: str, *, what: str = "graph has") -> IntArray:
    """Return `pairs_of_nodes` of a graph whose edges are repaired.

    GRB's graphs have no edge weights, so all weights become 1.

    Warns:
        DataChange: counts what was repaired.
    """
    edges, repairs = pairs_of_nodes(matrix, where, what=what)
    if any(repairs.values()):
        done = ", ".join(f"{count} {what}" for what, count in repairs.items() if count)
        warnings.warn(f"{where}: {done}", DataChange, stacklevel=2)
    return edges


def pairs_of_nodes(
    matrix: sp.csr_array, where: str, *, what: str = "graph has"
) -> tuple[IntArray, dict[str, int]]:
    """Return both directions of each edge, once, without self-loops, sorted by row, then column.

    Args:
        matrix: [num_nodes, num_nodes] without stored zeros; each entry stands for an edge,
            in either direction.
        where: the file, for messages.
        what: the edges belong to, with a verb, for messages.

    Returns:
        int64 [2, 2 * num_edges], as PyG expects; everything before is int32. And the number of each
        repair.

    Raises:
        DataError: the graph has no edges.
    """
    num_nodes = matrix.shape[0]
    rows = _rows(matrix)
    is_loop = rows == matrix.indices
    loops = int(is_loop.sum())
    weighted = int(((matrix.data != 1) & ~is_loop).sum())
    ones = np.ones(matrix.nnz - loops, dtype=np.int8)
    if loops:
        ends = rows[~is_loop], matrix.indices[~is_loop]
        forward = sp.coo_array((ones, ends), shape=matrix.shape).tocsr()
    else:
        forward = sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
    del rows, is_loop, matrix
    forward.sum_duplicates()
    duplicates = ones.size - forward.nnz
    both = _symmetric(forward)
    if not both.nnz:
        raise DataError(f"{where}: the {what} no edges")
    edges = np.empty((2, both.nnz), dtype=np.int64)
    edges[0] = np.repeat(np.arange(num_nodes, dtype=np.int32), np.diff(both.indptr))
    edges[1] = both.indices
    repairs = {
        "self-loops dropped": loops,
        "duplicate entries merged": duplicates,
        "one-way edges made two-way": both.nnz - forward.nnz,
        "edge weights set to 1": weighted,
    }
    return edges, repairs


def _symmetric(forward: sp.csr_array) -> sp.csr_array:
    """Return the union of a canonical matrix and its transpose."""
    forward.data.fill(1)  # sums of duplicates may have wrapped round to 0
    back = forward.T.tocsr()
    same = np.array_equal(forward.indptr, back.indptr)
    if same and np.array_equal(forward.indices, back.indices):
        return forward
    return sp.csr_array(forward + back)


def _rows(matrix: sp.csr_array) -> NDArray[np.int32]:
    """Return the row of each entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def _layout(arrays: Mapping[str, NDArray[Any]], where: str) -> str:
    if "format" not in arrays:
        msg = f"{where}: key 'format' is missing; save the matrix with scipy.sparse.save_npz"
        raise DataError(msg)
    written = arrays["format"]
    value = written.item() if written.size == 1 else written.dtype
    layout = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    if layout not in _LAYOUTS:
        raise DataError(f"{where}: format {layout!r} is not one of {', '.join(_LAYOUTS)}")
    return layout


def _weights(values: NDArray[Any], where: str) -> NDArray[np.int8]:
    """Return 0, 1, or 2 for any other weight."""
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        msg = f"{where}: data must be a row of real numbers, not {values.dtype}{values.shape}"
        raise DataError(msg)
    finite = np.isfinite(values)
    if not finite.all():
        raise DataError(
            f"{where}: NaN or infinite in {count(int((~finite).sum()), 'entry', 'entries')}"
        )
    weights = np.full(values.shape, 2, dtype=np.int8)
    weights[values == 1] = 1
    weights[values == 0] = 0
    return weights


def _row(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        shape = "x".join(map(str, array.shape)) or "scalar"
        raise DataError(f"{where} must be one row of integers, not {array.dtype} [{shape}]")
    return array


def _check_indptr(indptr: NDArray[Any], num_entries: int, where: str) -> None:
    if int(indptr[0]) != 0 or int(indptr[-1]) != num_entries or (indptr[1:] < indptr[:-1]).any():
        msg = f"{where}: indptr does not rise from 0 to {num_entries}, the number of indices"
        raise DataError(msg)
