"""Arrays from an untrusted npz file: no pickles, bounded memory; every fault is a `DataError`."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from grb_check.errors import DataError, count, one_line

LARGEST: Final = 8 << 30  # bytes of one array; GRB's largest features have 0.6 GB
_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, most_rows: Mapping[str, int] | None = None) -> dict[str, NDArray[Any]]:
    """Return key -> array of an npz file.

    The header of an array is checked before its content is read, so that a file never takes much
    more memory than its expected content; keys that are not asked for are not read.

    Args:
        path: the file.
        most_rows: key -> limit of its first dimension; other keys are not read. None reads all keys
            at any length.

    Raises:
        DataError: the file cannot be opened, is damaged, is not an npz file, holds pickled objects
            where numbers are expected, or an array is too long.
    """
    try:
        _refuse_single_array(path)
        with zipfile.ZipFile(path) as archive:
            keys = _keys(archive)
            if most_rows is None:
                return {key: _read(archive, key, None) for key in keys}
            return {key: _read(archive, key, most_rows[key]) for key in keys if key in most_rows}
    except Exception as error:  # zipfile, zlib and numpy raise nearly anything on damaged bytes
        reason = one_line(error)
        raise DataError(f"{path}: not a readable npz file: {reason}") from error


def _refuse_single_array(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise ValueError("a single array; expected an npz file")


def _keys(archive: zipfile.ZipFile) -> list[str]:
    names = archive.namelist()
    odd = [name for name in names if not name.endswith(".npy")]
    if odd:
        raise ValueError(f"member {odd[0]!r} is not an array")
    if len(set(names)) < len(names):
        raise ValueError("two members have one name")
    return [name.removesuffix(".npy") for name in names]


def _read(archive: zipfile.ZipFile, key: str, most_rows: int | None) -> NDArray[Any]:
    info = archive.getinfo(f"{key}.npy")
    with archive.open(info) as member:
        _check_header(member, key, most_rows, info.file_size)
    with archive.open(info) as member:
        array: NDArray[Any] = npy.read_array(member, allow_pickle=False)
        member.read(1)  # the checksum is compared only at the end
    return array


def _check_header(member: IO[bytes], key: str, most_rows: int | None, num_bytes: int) -> None:
    version = npy.read_magic(member)
    if version not in _HEADERS:
        raise ValueError(f"{key!r} has npy version {version}")
    shape, _, dtype = _HEADERS[version](member)
    if dtype.hasobject:
        raise ValueError(f"{key!r} is damaged, or holds Python objects, which are never loaded")
    rows = shape[0] if shape else 1
    if min(shape, default=0) < 0 or (most_rows is not None and rows > most_rows):
        raise ValueError(f"{key!r} has shape {shape}; its first size is to be at most {most_rows}")
    size = math.prod(map(int, shape)) * dtype.itemsize
    if size > LARGEST:
        raise ValueError(f"{key!r} has {size:,} bytes; at most {LARGEST:,} are read")
    if member.tell() + size != num_bytes:
        raise ValueError(
            f"{key!r} has {count(num_bytes, 'byte')}, which its shape {shape} contradicts"
        )


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


LARGEST_DENSE: Final = 8 << 30  # bytes; GRB's largest graph needs 0.6 GB
BLOCK_VALUES: Final = 1 << 22  # 32 MiB of float64


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
    if num_rows * num_columns * 4 > LARGEST_DENSE:
        raise DataError(
            f"{where}: {num_rows} x {count(num_columns, 'feature')} would take "
            f"{num_rows * num_columns * 4 / 2**30:.1f} GiB; at most {LARGEST >> 30} are allowed"
        )
    return num_rows, num_columns
