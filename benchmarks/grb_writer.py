"""Write GRB's four-file format, whole or not at all, with bytes that depend on the arrays only."""

from __future__ import annotations

import os
import shutil
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from grb_check.datasets.splits import Split
from grb_check.errors import UsageError

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_UNIX: Final = 3  # a zip member names the system that made it; the default is the present one
_ZIP64_FROM: Final = 1 << 30  # bytes; the old format ends at twice that

Arrays = Mapping[str, NDArray[Any]]


def write_folder(
    folder: Path,
    *,
    adjacency: sp.csr_matrix,
    features: NDArray[Any],
    labels: NDArray[Any],
    split: Split,
    compress: bool,
) -> None:
    """Write `adj.npz`, `features.npz`, `labels.npz` and `index.npz`.

    They are written into a directory beside `folder`, which is then renamed. If `folder` exists, it
    keeps its other files, and each of the four is replaced whole.

    Args:
        folder: its parents are created if missing.
        adjacency: csr [num_nodes, num_nodes], symmetric, without weights.
        features: raw, real [num_nodes, num_features].
        labels: int64 [num_nodes].
        split: sorted node ids.
        compress: deflate the arrays.

    Raises:
        UsageError: the directory cannot be written to.
        ValueError: an array holds Python objects.
    """
    files: dict[str, Arrays] = {
        "adj": _adjacency_arrays(adjacency),
        "features": {"data": features},
        "labels": {"data": labels},
        "index": _index_arrays(split),
    }
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
        for name, arrays in files.items():
            _write_npz(temporary / f"{name}.npz", arrays, compress=compress)
        _move(temporary, folder)
    except OSError as error:
        msg = f"{folder}: the dataset cannot be written: {error}; choose another directory"
        raise UsageError(msg) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _adjacency_arrays(adjacency: sp.csr_matrix) -> Arrays:
    """Return the keys of `scipy.sparse.save_npz`, in its order."""
    return {
        "indices": adjacency.indices.astype(np.int32, copy=False),
        "indptr": adjacency.indptr.astype(np.int32, copy=False),
        "format": np.array(b"csr"),
        "shape": np.array(adjacency.shape, dtype=np.int64),
        "data": adjacency.data.astype(np.float32, copy=False),
    }


def _index_arrays(split: Split) -> Arrays:
    return {
        "index_train": split.train,
        "index_val": split.val,
        "index_test": split.full,
        "index_test_easy": split.easy,
        "index_test_medium": split.medium,
        "index_test_hard": split.hard,
    }


def _write_npz(path: Path, arrays: Arrays, *, compress: bool) -> None:
    """Write with fixed dates, modes and system; arrays are streamed, never copied whole."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            info = zipfile.ZipInfo(f"{key}.npy", date_time=_DATE)
            info.create_system = _UNIX
            info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
            large = array.nbytes >= _ZIP64_FROM
            with archive.open(info, "w", force_zip64=large) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _move(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(temporary, folder)
        return
    for path in temporary.iterdir():
        os.replace(path, folder / path.name)
