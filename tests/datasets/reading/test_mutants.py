"""Over a thousand damaged four-file directories: read as what they contain, or a DataError."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.grb_writer import write_folder
from grb_check.datasets import DataNotice
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.four_files import load_folder
from grb_check.datasets.splits import grb_split
from grb_check.errors import DataError

NAMES = ("adj", "features", "labels", "index")
NUM_NODES = 24
EXTRA_MEMORY = 200 * 2**20
LEVELS = ("easy", "medium", "hard")

PLACES = [
    *(("adj", key) for key in ("indices", "indptr", "format", "shape", "data")),
    ("features", "data"),
    ("labels", "data"),
    *(("index", f"index_{part}") for part in ("train", "val", "test")),
    *(("index", f"index_test_{level}") for level in LEVELS),
]
KEYS = dict.fromkeys([key for _, key in PLACES] + ["row", "col"])

Array = NDArray[Any]
Members = dict[str, bytes]
Folder = dict[str, bytes]  # file name without its suffix -> content


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """The content of a directory, read without the loader."""

    edges: set[tuple[int, int]]
    features: NDArray[np.float64]
    labels: list[int]
    split: dict[str, list[int]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with 24 nodes, 5 features and 3 classes, from the project's own writer."""
    rng = np.random.default_rng(1)
    upper = np.triu(rng.random((NUM_NODES, NUM_NODES)) < 0.2, 1)
    adjacency = sp.csr_matrix((upper | upper.T).astype(np.float32))
    folder = tmp_path_factory.mktemp("sound") / "graph"
    write_folder(
        folder,
        adjacency=adjacency,
        features=rng.normal(size=(NUM_NODES, 5)).astype(np.float32),
        labels=rng.permutation(np.arange(NUM_NODES) % 3),
        split=grb_split(np.diff(adjacency.indptr).astype(np.int64)),
        compress=False,
    )
    return folder


@pytest.fixture(scope="module")
def original(sound: Path) -> Folder:
    return {name: (sound / f"{name}.npz").read_bytes() for name in NAMES}


def arrays_of(content: bytes) -> dict[str, Array]:
    """Key -> array, of the keys that the format has; every checksum is compared."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {key: f"{key}.npy" for key in KEYS if f"{key}.npy" in archive.namelist()}
        return {
            key: np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
            for key, name in members.items()
        }


def npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def raw_npy(header: str, body: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    """An npy file with any header."""
    text = header.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + body


def packed(members: Members, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def repacked(content: bytes, key: str, member: bytes) -> bytes:
    """The archive with one member replaced or added; its checksums are right."""
    return packed({**members_of(content), f"{key}.npy": member})


def read(path: Path) -> Dataset:
    """The loader's answer; warns of nothing but repairs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = load_folder("mutant", path, origin="made here")
    assert {DataNotice} >= {warning.category for warning in caught}
    return dataset


def edges_by_hand(arrays: dict[str, Array]) -> set[tuple[int, int]]:
    """Both directions of every entry that is neither zero nor on the diagonal, one at a time."""
    if arrays["format"].item() in (b"coo", "coo"):
        ends = list(zip(arrays["row"].tolist(), arrays["col"].tolist(), strict=True))
    else:
        starts = arrays["indptr"].tolist()
        ends = [
            (row, int(arrays["indices"][position]))
            for row in range(len(starts) - 1)
            for position in range(starts[row], starts[row + 1])
        ]
    weighted = zip(ends, arrays["data"].tolist(), strict=True)
    kept = [(a, b) for (a, b), weight in weighted if weight != 0 and a != b]
    return {*kept, *((b, a) for a, b in kept)}


def graph_by_hand(folder: Path) -> Graph:
    """Read the four files with plain numpy and Python loops."""
    adj, features, labels, index = (
        arrays_of((folder / f"{name}.npz").read_bytes()) for name in NAMES
    )
    raw = features["data"].astype(np.float32).astype(np.float64)
    deviation = raw - raw.mean()
    scale = raw.std() if raw.min() < raw.max() else 1.0
    classes = labels["data"] if labels["data"].ndim == 1 else labels["data"].argmax(axis=1)
    split = {part: index[f"index_{part}"] for part in ("train", "val")}
    split |= {level: index[f"index_test_{level}"] for level in LEVELS}
    assert adj["shape"].tolist() == [len(raw), len(raw)]
    return Graph(
        edges=edges_by_hand(adj),
        features=2 / np.pi * np.arctan(deviation / scale),
        labels=classes.tolist(),
        split={part: sorted(nodes.tolist()) for part, nodes in split.items()},
    )


def agrees(dataset: Dataset, graph: Graph) -> None:
    """Check that the dataset equals the files and has the properties that its class documents."""
    rows, columns = dataset.graph.edge_index.tolist()
    assert sorted(graph.edges) == list(zip(rows, columns, strict=True))
    np.testing.assert_allclose(dataset.graph.x.numpy(), graph.features, atol=2e-6, rtol=0)
    assert graph.labels == dataset.graph.y.tolist()
    assert dataset.num_classes == max(graph.labels) + 1
    test = {level: dataset.test[level].tolist() for level in LEVELS}
    split = {"train": dataset.train.tolist(), "val": dataset.val.tolist(), **test}
    assert graph.split == split
    assert sorted(chain(*test.values())) == dataset.test["full"].tolist()
    nodes = list(chain(*split.values()))
    assert len(set(nodes)) == len(nodes)
    assert all(split.values())
    assert min(nodes) >= 0
    assert max(nodes) < dataset.num_nodes == len(graph.labels) == len(graph.features)


def write_all(folder: Path, content: Folder) -> Path:
    folder.mkdir()
    for name, data in content.items():
        (folder / f"{name}.npz").write_bytes(data)
    return folder


def error_of(folder: Path) -> str | None:
    """Return the message of the loader's DataError, checked; None if it reads the content."""
    try:
        dataset = read(folder)
    except DataError as error:
        message = str(error)
        assert message.splitlines() == [message]
        assert any(str(folder / f"{name}.npz") in message for name in NAMES)
        return message
    agrees(dataset, graph_by_hand(folder))
    return None


class Mutants:
    """Writes mutants one after the other, and names the one that fails."""

    def __init__(self, original: Folder, home: Path) -> None:
        self.original = original
        self._home = home
        self._count = 0

    def judge(self, label: str, changes: Folder) -> str | None:
        """The error of the mutant, or None: see `error_of`.

        Raises:
            AssertionError: the loader broke its promise; the message has the label.
        """
        folder = write_all(self._home / str(self._count), {**self.original, **changes})
        self._count += 1
        try:
            return error_of(folder)
        except Exception as error:
            raise AssertionError(f"mutant {label}: {type(error).__name__}: {error}") from error


@pytest.fixture
def mutants(original: Folder, tmp_path: Path) -> Mutants:
    return Mutants(original, tmp_path)


# Bytes of the files: the checksums of the archive find most of these.


# Contents with right checksums.


# What changes nothing must change nothing.


def members_of(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# Headers that lie, archives that swell.

HEADERS = {
    **{
        f"shape {shape}": f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}"
        for shape in (
            "(10**12,)",
            "(1000000000000,)",
            "(1000000000,)",
            "(100000000,)",
            "(1000000, 1000000)",
            "(0, 1000000000000)",
            "(9223372036854775807,)",
            "(9223372036854775808,)",
            "(4294967296, 4294967296)",
            "(-1,)",
            "(-24,)",
            "(24.0,)",
            "(True,)",
            "24",
            "None",
            "'24'",
            "(24, None)",
            "[24]",
        )
    },
    **{
        f"dtype {descr}": f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': (24,)}}"
        for descr in ("|O", "<i3", "", "<f16", "|S99999999", "<U99999999", "|V0", "|S0", "i8,i8")
    },
    "no shape": "{'descr': '<i8', 'fortran_order': False}",
    "one key more": "{'descr': '<i8', 'fortran_order': False, 'shape': (24,), 'more': 1}",
    "order of text": "{'descr': '<i8', 'fortran_order': 'yes', 'shape': (24,)}",
    "no dictionary": "24",
    "empty": "",
    "code": "__import__('os').abort()",
    "nested": "(" * 4000,
    "long": "{'descr': '<i8', 'fortran_order': False, 'shape': (24,)}" + " " * 20000,
    "two lines": "{'descr': '<i8',\n'fortran_order': False,\n'shape': (99,)}",
    "descr of lines": "{'descr': 'a\\nb', 'fortran_order': False, 'shape': (99,)}",
    "other key": "{'descr': '<i8', 'fortran_order': False, 'sh\\nape': (24,)}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_headers_that_lie(mutants: Mutants, name: str) -> None:
    """Arrays that claim to be huge, or nothing at all, are refused without the memory for them."""
    content = mutants.original[name]
    key = {"adj": "indices", "index": "index_train"}.get(name, "data")
    for label, header in HEADERS.items():
        for version in ((1, 0), (2, 0), (3, 0), (9, 9)):
            member = raw_npy(header, bytes(24 * 8), version)
            error, peak = with_peak(
                mutants, f"{name} {label}", {name: repacked(content, key, member)}
            )
            assert error is not None or label in ("long", "(True,)"), f"{name} {label} was read"
            assert peak < EXTRA_MEMORY, f"{name} {label} took {peak >> 20} MiB"


def with_peak(mutants: Mutants, label: str, changes: Folder) -> tuple[str | None, int]:
    """The verdict, and the most bytes that Python and numpy held meanwhile."""
    tracemalloc.start()
    try:
        return mutants.judge(label, changes), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@dataclass(frozen=True, kw_only=True)
class Deflated:
    """A member as it lies in an archive."""

    data: bytes
    crc: int
    size: int  # what the archive claims


def deflated(content: bytes) -> Deflated:
    squeeze = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = squeeze.compress(content) + squeeze.flush()
    return Deflated(data=data, crc=zlib.crc32(content), size=len(content))


def archive_of(members: list[tuple[str, Deflated]]) -> bytes:
    """A zip written by hand, because zipfile would deflate the same zeros again and again."""
    local, central = b"", b""
    for name, member in members:
        text = name.encode()
        shared = struct.pack(
            "<5H3I2H",
            *(20, 0, zipfile.ZIP_DEFLATED, 0, 33, member.crc, len(member.data), member.size),
            *(len(text), 0),
        )
        central += b"PK\1\2" + struct.pack("<H", 20) + shared
        central += struct.pack("<3H2I", 0, 0, 0, 0, len(local)) + text
        local += b"PK\3\4" + shared + text + member.data
    count = len(members)
    end = struct.pack("<4H2IH", 0, 0, count, count, len(central), len(local), 0)
    return local + central + b"PK\5\6" + end


@pytest.fixture(scope="module")
def bomb() -> Deflated:
    """256 MiB of zeros in 1 MB."""
    return deflated(npy(np.zeros(32 << 20, dtype=np.int64)))


# Odd archives.


def odd_archives(content: bytes, key: str) -> dict[str, bytes]:
    """Label -> an archive that zip tools still open."""
    members = members_of(content)
    name, wrong = f"{key}.npy", npy(np.zeros(3, dtype=np.int64))
    plain = [(other, deflated(data)) for other, data in members.items()]
    flags = bytearray(content)
    flags[6] |= 1
    flags[content.rindex(b"PK\1\2") + 8] |= 1
    return {
        "key twice": archive_of([(name, deflated(wrong)), *plain]),
        "key twice, last wrong": archive_of([*plain, (name, deflated(wrong))]),
        "bare name": packed({**members, key: b"text"}),
        "key twice, bare": packed({**members, key: members[name]}),
        "folder": packed({**members, "folder/": b""}),
        "path": packed({**members, f"../{name}": wrong}),
        "two lines": packed({**members, "a\nb.npy": wrong}),
        "two lines alone": packed({"a\nb.npy": wrong}),
        "no name": packed({**members, "": b""}),
        "encrypted": bytes(flags),
        "bzip2": packed(members, zipfile.ZIP_BZIP2),
        "lzma": packed(members, zipfile.ZIP_LZMA),
        "twice": content + content,
        "trailing": content + b"more",
        "pickle": pickle.dumps({key: [1, 2, 3]}),
        "empty": b"",
        "npy": wrong,
    }


@pytest.mark.parametrize("name", NAMES)
def test_odd_archives(mutants: Mutants, name: str) -> None:
    """Archives that zip allows and npz does not: refused, or without effect; no duplicate keys."""
    key = {"adj": "shape", "index": "index_train"}.get(name, "data")
    for label, content in odd_archives(mutants.original[name], key).items():
        error = mutants.judge(f"{name} {label}", {name: content})
        assert error is not None or not label.startswith("key twice"), f"{name} {label} was read"


# Several faults at once.
