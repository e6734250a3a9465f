"""Untrusted npz files: refused before they cost memory, whatever their headers say."""

from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from grb_check.datasets.reading.adjacency import read_npz
from grb_check.errors import DataError


def npy(header: str, version: int = 1) -> bytes:
    """An npy file of 24 zeros with any header."""
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + bytes(24 * 8)


def header(shape: str = "(24,)", dtype: str = "<i8") -> str:
    return f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}}}\n"


GOOD = npy(header())


def archive(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in members:
            file.writestr(name, content)
    return path


def test_a_sound_array_is_read(tmp_path: Path) -> None:
    """At most as long as it may be."""
    path = archive(tmp_path / "a.npz", ("a.npy", GOOD), ("b.npy", npy(header("(25,)"))))
    assert read_npz(path, {"a": 24})["a"].tolist() == [0] * 24
    with pytest.raises(DataError, match=r"shape \(24,\)"):
        read_npz(path, {"a": 23})


@pytest.mark.parametrize(
    "content",
    [
        *(npy(header(shape)) for shape in ("(10**12,)", "(-24,)", "(24.0,)", "(0, 2)", "24")),
        *(npy(header(f"({size},)")) for size in (10**9, 2**63, 2**64)),
        *(npy(header(dtype=dtype)) for dtype in ("|O", "<i3", "|S99999999", "|V0", "i8,i8")),
        npy(header(), version=3),
        npy("__import__('os').abort()\n"),
        npy("(" * 4000),
        b"",
    ],
)
def test_headers_that_lie_are_refused_without_memory(tmp_path: Path, content: bytes) -> None:
    """They claim to be huge, or nothing at all."""
    path = archive(tmp_path / "a.npz", ("a.npy", content))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.npz"):
            read_npz(path)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_other_archives_are_refused(tmp_path: Path) -> None:
    """That zip allows and npz does not."""
    twice = archive(tmp_path / "twice.npz", ("a.npy", GOOD), ("a.npy", GOOD))
    folder = archive(tmp_path / "folder.npz", ("a.npy", GOOD), ("folder/", b""))
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    (tmp_path / "single.npz").write_bytes(buffer.getvalue())
    for path in (twice, folder, tmp_path / "single.npz"):
        with pytest.raises(DataError, match=path.name):
            read_npz(path)
