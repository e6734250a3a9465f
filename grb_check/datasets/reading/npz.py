"""Arrays from an untrusted npz file: no pickles, bounded memory; every fault is a `DataError`."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
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
