"""Npz files: read as what they hold, or refused with their name."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from grb_check.datasets.reading.npz import read_npz
from grb_check.errors import DataError


def test_keys_that_are_asked_for_are_read(tmp_path: Path) -> None:
    """Or all of them; others may hold pickled objects."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.arange(24), b=np.zeros(2))
    assert {key: array.tolist() for key, array in read_npz(path, {"a", "c"}).items()} == {
        "a": list(range(24))
    }
    assert list(read_npz(path)) == ["a", "b"]
    np.savez(path, a=np.arange(2), b=np.array([{}], dtype=object))
    assert list(read_npz(path, {"a"})) == ["a"]
    with pytest.raises(DataError, match=r"a\.npz: .*allow_pickle"):
        read_npz(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A single array, an archive of something else, and a file whose bytes have changed."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    (tmp_path / "single.npz").write_bytes(buffer.getvalue())
    with zipfile.ZipFile(tmp_path / "header.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00\x05\x00((((\n")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("a.npy", b"not an array")
    np.savez_compressed(tmp_path / "changed.npz", a=np.arange(1000))
    content = bytearray((tmp_path / "changed.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "changed.npz").write_bytes(bytes(content))
    for path in tmp_path.iterdir():
        with pytest.raises(DataError, match=f"{path.name}: not a readable npz file"):
            read_npz(path)
