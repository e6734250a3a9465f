"""Arrays of npz files, checked before they are read whole."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from grb_check.errors import DataError, count, one_line

LARGEST: Final = 8 << 30  # bytes of dense features; GRB's largest have 0.6 GB
BLOCK_VALUES: Final = 1 << 22  # 32 MiB of float64


def read_npz(path: Path, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return key -> array of an npz file.

    Args:
        path: the file.
        keys: that are read if they are there; None for all.

    Raises:
        DataError: the file cannot be opened, is damaged, is not an npz file, or holds pickled
            objects where numbers are expected.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # not every damage shows when an array is read
            if (damaged := archive.testzip()) is not None:
                raise ValueError(f"its member {damaged} is damaged")
        with np.load(path, allow_pickle=False) as file:
            selected = [key for key in file.files if keys is None or key in keys]
            result = {key: file[key] for key in selected}
        if odd := [key for key, value in result.items() if not isinstance(value, np.ndarray)]:
            raise ValueError(f"its member {odd[0]} is not an array")
        return result
    except Exception as error:  # zipfile, zlib and numpy raise nearly anything on damaged bytes
        raise DataError(f"{path}: not a readable npz file: {one_line(error)}") from error


def names_in(path: Path) -> list[str]:
    """Return the names of the arrays of an npz file that `read_npz` can read."""
    with np.load(path, allow_pickle=False) as file:
        return list(file.files)


def array_of(arrays: dict[str, NDArray[Any]], key: str, where: str) -> NDArray[Any]:
    """Return the array of a key; if it is missing, a `DataError` names the present keys."""
    if key not in arrays:
        has = ", ".join(map(repr, arrays)) or "no expected key"
        raise DataError(f"{where}: key {key!r} is missing; it has {has}")
    return arrays[key]


def integers(array: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Return a one-dimensional array of integers as int64.

    Raises:
        DataError: it has another dtype, more dimensions, or a value beyond int64.
    """
    if array.ndim != 1 or array.dtype.kind not in "iu":
        shape = "x".join(map(str, array.shape)) or "scalar"
        raise DataError(f"{where} must be one row of integers, not {array.dtype} [{shape}]")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise DataError(f"{where} has the value {int(array.max())}, beyond int64")
    return array.astype(np.int64)


def blocks(x: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of rows of a matrix, each of at most 4 million values, or of one row."""
    step = max(1, BLOCK_VALUES // max(1, x.shape[1]))
    return (slice(start, start + step) for start in range(0, x.shape[0], step))


def dense_features(
    values: NDArray[Any],
    columns: NDArray[Any],
    row_ends: NDArray[Any],
    shape: NDArray[Any],
    where: str,
) -> NDArray[np.float32]:
    """Return a compressed-row matrix as float32 [rows, columns]; duplicate entries are added up.

    Args:
        values: real [e].
        columns: int [e], column of each entry.
        row_ends: int [rows + 1], the first entry of each row, and the number of entries.
        shape: int [2], rows and columns.
        where: the file, for messages.

    Raises:
        DataError: the four contradict each other, or the result would take more than 8 GiB.
    """
    columns, row_ends = integers(columns, f"{where}: indices"), integers(row_ends, where)
    num_rows, num_columns = checked_shape(integers(shape, f"{where}: shape"), where)
    if values.dtype.kind not in "biuf" or values.shape != columns.shape:
        raise DataError(
            f"{where}: {columns.size} indices need as many real numbers, "
            f"not {values.dtype}{list(values.shape)}"
        )
    rises = row_ends.size == num_rows + 1 and row_ends[0] == 0 and row_ends[-1] == columns.size
    if not rises or (row_ends[1:] < row_ends[:-1]).any():
        raise DataError(f"{where}: indptr does not rise from 0 to {columns.size} over its rows")
    if columns.size and not 0 <= columns.min() <= columns.max() < num_columns:
        raise DataError(
            f"{where}: indices run from {columns.min()} to {columns.max()}; "
            f"allowed are 0 .. {num_columns - 1}"
        )
    with np.errstate(over="ignore"):  # too large values become infinite, which is refused later
        values = values.astype(np.float32)
    matrix = sp.csr_array((values, columns, row_ends), shape=(num_rows, num_columns))
    dense: NDArray[np.float32] = matrix.toarray()
    return dense


def checked_shape(shape: NDArray[np.int64], where: str) -> tuple[int, int]:
    """Return rows and columns.

    Raises:
        DataError: they are not those of a matrix, or it would take more than 8 GiB as float32.
    """
    if shape.size != 2 or shape.min() < 1:
        raise DataError(f"{where}: shape {shape.tolist()} is not that of a feature matrix")
    num_rows, num_columns = shape.tolist()
    if num_rows * num_columns * 4 > LARGEST:
        raise DataError(
            f"{where}: {num_rows} x {count(num_columns, 'feature')} would take "
            f"{num_rows * num_columns * 4 / 2**30:.1f} GiB; at most {LARGEST >> 30} are allowed"
        )
    return num_rows, num_columns
