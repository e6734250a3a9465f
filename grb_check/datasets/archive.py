"""Arrays from an npz file that nobody vouches for: no pickles, and one kind of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grb_check.errors import DataError


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Key -> array of an npz file.

    Raises:
        DataError: the file cannot be opened, is damaged, is no npz, or holds pickled objects.
    """
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.ndarray):
            with archive:
                return {key: _checked(archive[key], key) for key in archive.files}
    except Exception as error:  # zipfile, zlib and numpy raise nearly anything on damaged bytes
        reason = " ".join(str(error).split()) or type(error).__name__
        if "allow_pickle" in reason:
            reason = "it is damaged, or holds Python objects, which are never loaded"
        raise DataError(f"{path}: not a readable npz file: {reason}") from error
    raise DataError(f"{path}: a single array; expected an npz file")


def array_of(arrays: dict[str, NDArray[Any]], key: str, where: str) -> NDArray[Any]:
    """The array of that key; a `DataError` names the keys there are."""
    if key not in arrays:
        raise DataError(f"{where}: key {key!r} is missing; it has {', '.join(arrays) or 'none'}")
    return arrays[key]


def integers(array: NDArray[Any], where: str) -> NDArray[np.int64]:
    """A row of integers as int64.

    Raises:
        DataError: it has another dtype, more dimensions, or a value beyond int64.
    """
    if array.ndim != 1 or array.dtype.kind not in "iu":
        shape = "x".join(map(str, array.shape)) or "scalar"
        raise DataError(f"{where} must be one row of integers, not {array.dtype} [{shape}]")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise DataError(f"{where} has the value {int(array.max())}, beyond int64")
    return array.astype(np.int64)


def _checked(value: Any, key: str) -> NDArray[Any]:
    if not isinstance(value, np.ndarray):  # numpy gives the bytes of members that are no arrays
        msg = f"member {key!r} is not an array"
        raise ValueError(msg)
    return value
