"""A sparse matrix as scipy saves it, checked, and the undirected edges that it means."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grb_check.datasets.archive import integers
from grb_check.datasets.notice import DataNotice
from grb_check.errors import DataError

IntArray = NDArray[np.int64]

_LAYOUTS: Final = {
    "csr": ("indptr", "indices"),
    "csc": ("indptr", "indices"),
    "coo": ("row", "col"),
}


def entries(arrays: Mapping[str, NDArray[Any]], where: str) -> tuple[IntArray, NDArray[Any], int]:
    """The non-zero entries of a square matrix saved by `scipy.sparse.save_npz`.

    Args:
        arrays: key -> array of the file; csr, csc or coo.
        where: the file, for messages.

    Returns:
        int64 [2, e] rows and columns, the e values, and the number of nodes.

    Raises:
        DataError: a key is missing, or indices and shape do not make a square matrix.
    """
    layout = _layout(arrays, where)
    keys = ("shape", "data", *_LAYOUTS[layout])
    absent = [key for key in keys if key not in arrays]
    if absent:
        raise DataError(f"{where}: key {absent[0]!r} is missing; it has {', '.join(arrays)}")
    num_nodes = _num_nodes(integers(arrays["shape"], f"{where}: shape"), where)
    values = arrays["data"]
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        msg = f"{where}: data must be a row of real numbers, not {values.dtype}{values.shape}"
        raise DataError(msg)
    if not np.isfinite(values).all():
        raise DataError(f"{where}: {int((~np.isfinite(values)).sum())} entries are NaN or infinite")
    first, second = (integers(arrays[key], f"{where}: {key}") for key in _LAYOUTS[layout])
    if layout != "coo":
        first = _expand(first, second.size, num_nodes, where)
    if not first.size == second.size == values.size:
        msg = (
            f"{where}: row, column and data have lengths {first.size}, {second.size} "
            f"and {values.size}; they must be equal"
        )
        raise DataError(msg)
    pairs = np.stack([first, second])
    outside = (pairs < 0) | (pairs >= num_nodes)
    if outside.any():
        msg = (
            f"{where}: {int(outside.sum())} indices lie outside 0 .. {num_nodes - 1}, "
            f"the first is {int(pairs[outside][0])}"
        )
        raise DataError(msg)
    stored = values != 0
    return (pairs[::-1] if layout == "csc" else pairs)[:, stored], values[stored], num_nodes


def undirected_edges(pairs: IntArray, values: NDArray[Any], num_nodes: int, where: str) -> IntArray:
    """Both directions of each edge, once, without self-loops, sorted by row, then column.

    Args:
        pairs: int64 [2, e], node ids; each entry stands for an edge, whichever way it points.
        values: [e], edge weights; GRB's graphs have none, so all but 1 are taken for 1.
        num_nodes: number of nodes.
        where: the file, for messages.

    Returns:
        int64 [2, 2 * num_edges].

    Raises:
        DataError: no edge is left.

    Warns:
        DataNotice: counts what was repaired.
    """
    row, column = pairs
    is_loop = row == column
    weighted = int((values[~is_loop] != 1).sum())
    row, column = row[~is_loop], column[~is_loop]
    forward = np.unique(row * num_nodes + column)
    both = np.unique(np.concatenate([row * num_nodes + column, column * num_nodes + row]))
    repairs = {
        "self-loops dropped": int(is_loop.sum()),
        "duplicate entries merged": row.size - forward.size,
        "one-way edges made two-way": both.size - forward.size,
        "edge weights set to 1": weighted,
    }
    if any(repairs.values()):
        done = ", ".join(f"{count} {what}" for what, count in repairs.items() if count)
        warnings.warn(f"{where}: {done}", DataNotice, stacklevel=2)
    if not both.size:
        raise DataError(f"{where}: the graph has no edges")
    return np.stack(np.divmod(both, num_nodes))


def _layout(arrays: Mapping[str, NDArray[Any]], where: str) -> str:
    if "format" not in arrays:
        msg = f"{where}: key 'format' is missing; save the matrix with scipy.sparse.save_npz"
        raise DataError(msg)
    written = arrays["format"]
    value = written.item() if written.size == 1 else written.dtype
    layout = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    if layout not in _LAYOUTS:
        raise DataError(f"{where}: format {layout!r} is none of {', '.join(_LAYOUTS)}")
    return layout


def _num_nodes(shape: IntArray, where: str) -> int:
    if shape.size != 2 or shape[0] != shape[1] or not 0 < shape[0] <= np.iinfo(np.int32).max:
        raise DataError(f"{where}: shape {shape.tolist()} is not that of an adjacency matrix")
    return int(shape[0])


def _expand(indptr: IntArray, num_entries: int, num_nodes: int, where: str) -> IntArray:
    """Row (csr) or column (csc) of each entry."""
    if indptr.size != num_nodes + 1:
        msg = f"{where}: indptr has {indptr.size} values; {num_nodes} nodes need {num_nodes + 1}"
        raise DataError(msg)
    if indptr[0] != 0 or indptr[-1] != num_entries or (indptr[1:] < indptr[:-1]).any():
        msg = f"{where}: indptr does not rise from 0 to {num_entries}, the number of indices"
        raise DataError(msg)
    return np.repeat(np.arange(num_nodes), np.diff(indptr))
