"""Over a thousand damaged four-file directories: read as what they contain, or a DataError."""

from __future__ import annotations

import dataclasses
import io
import pickle
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
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


def test_sound_folder_is_read_as_it_is(sound: Path) -> None:
    """The loader and the reading by hand agree before anything is damaged."""
    assert error_of(sound) is None


# Bytes of the files: the checksums of the archive find most of these.


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bits(mutants: Mutants, name: str) -> None:
    """One to three flipped bits anywhere in a file, plain or deflated, 150 times."""
    rng = np.random.default_rng(NAMES.index(name))
    stored = mutants.original[name]
    squeezed = packed(members_of(stored), zipfile.ZIP_DEFLATED)
    for turn in range(150):
        content = bytearray((stored, squeezed)[turn % 2])
        for position in rng.integers(0, len(content), 1 + turn % 3):
            content[position] ^= 1 << int(rng.integers(0, 8))
        mutants.judge(f"{name} flip {turn}", {name: bytes(content)})


@pytest.mark.parametrize("name", NAMES)
def test_truncated_files(mutants: Mutants, name: str) -> None:
    """The beginning of a file, its end, or a hole in it are errors that name it: 45 cuts."""
    content = mutants.original[name]
    for cut in np.linspace(0, len(content) - 1, 15).astype(int).tolist():
        damaged = {"head": content[:cut], "tail": content[cut + 1 :]}
        damaged["hole"] = content[: cut // 2] + content[cut // 2 + 8 :]
        for what, data in damaged.items():
            error = mutants.judge(f"{name} {what} {cut}", {name: data})
            assert error is not None or data == content[8:], f"{name} {what} {cut} was read"


def test_swapped_files(mutants: Mutants) -> None:
    """A file under another's name is an error that names that file."""
    for name in NAMES:
        for other in NAMES:
            if name != other:
                error = mutants.judge(f"{other} as {name}", {name: mutants.original[other]})
                assert error is not None
                assert f"{name}.npz" in error


# Contents with right checksums.


@pytest.mark.parametrize(("name", "key"), PLACES)
def test_flipped_bytes_within_members(mutants: Mutants, name: str, key: str) -> None:
    """A wrong byte in the header or the values of an array, 30 times."""
    content = mutants.original[name]
    member = npy(arrays_of(content)[key])
    rng = np.random.default_rng(PLACES.index((name, key)))
    for turn in range(30):
        flipped = bytearray(member)
        begin = 128 if turn % 3 else 0  # two in three among the values
        flipped[int(rng.integers(begin, len(member)))] ^= int(rng.integers(1, 256))
        changed = repacked(content, key, bytes(flipped))
        mutants.judge(f"{name}/{key} byte {turn}", {name: changed})


def with_value(position: int, value: float) -> Callable[[Array], Array]:
    def change(array: Array) -> Array:
        kind = np.float64 if array.dtype.kind == "f" else np.int64
        changed = array.astype(kind)
        changed.ravel()[position] = value
        return changed

    return change


CHANGES: dict[str, Callable[[Array], Array]] = {
    **{
        f"as {kind}": (lambda array, kind=kind: array.astype(kind))
        for kind in ("O", "c8", "?", "U9", "S9", "f8", "f2", ">f4", "g", "M8[s]", "m8[D]", "V8")
    },
    **{
        f"as {kind}": (lambda array, kind=kind: array.astype(kind))
        for kind in ("i1", "u1", "u8", ">i4", ">i8", "<u2")
    },
    "structured": lambda array: np.zeros(array.shape, dtype=[("a", "i4"), ("b", "f4")]),
    "subarrays": lambda array: np.zeros(array.shape, dtype=[("a", "i4", (2,))]),
    "0-d": lambda array: array.ravel()[:1].reshape(()),
    "row in a matrix": lambda array: array[None],
    "column": lambda array: array[..., None],
    "flat": lambda array: array.ravel(),
    "transposed": lambda array: array.T,
    "Fortran order": lambda array: np.asfortranarray(array),
    "none": lambda array: array.ravel()[:0],
    "no rows": lambda array: array[:0],
    "no columns": lambda array: array[..., :0],
    "one": lambda array: array[:1],
    "one less": lambda array: array[:-1],
    "twice": lambda array: np.concatenate([array, array]),
    "every other": lambda array: array[::2],
    "rising by one": lambda array: array + 1,
    "falling by one": lambda array: array - 1,
    "reversed": lambda array: array[::-1],
    "rolled": lambda array: np.roll(array, 1, axis=0),
    "negated": lambda array: -array,
    "zeros": lambda array: np.zeros_like(array),
    "ones": lambda array: np.ones_like(array),
    "nine dimensions": lambda array: array.reshape((1,) * 8 + (-1,)),
    **{
        f"{value} at {position}": with_value(position, value)
        for value in (-1, 0, 1, 23, 24, 25, 2**31 - 1, 2**31, 2**63 - 1, -(2**63))
        for position in (0, 1, -1)
    },
    **{
        f"{value} at {position}": with_value(position, value)
        for value in (np.nan, np.inf, -np.inf, 1e300, 1e-300)
        for position in (0, -1)
    },
}


def mutated(array: Array, change: str) -> Array | None:
    """The changed array; None where the change means nothing for it: NaN among integers."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return CHANGES[change](array)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


@pytest.mark.parametrize(("name", "key"), PLACES)
def test_changed_arrays(mutants: Mutants, name: str, key: str) -> None:
    """Wrong dtypes, shapes, lengths and values, at least 45 for each array but the format."""
    content = mutants.original[name]
    array = arrays_of(content)[key]
    judged = 0
    for change in CHANGES:
        changed = mutated(array, change)
        if changed is not None:
            label = f"{name}/{key} {change}"
            error = mutants.judge(label, {name: repacked(content, key, npy(changed))})
            judged += 1
            if changed.dtype.kind in "OUMmV" and label != "adj/format as U9":
                assert error is not None, f"{label} was read"
    assert judged >= (15 if key == "format" else 45)


@pytest.mark.parametrize("name", NAMES)
def test_missing_keys(mutants: Mutants, name: str) -> None:
    """Without a key the file is named; only `index_test` may be missing."""
    arrays = arrays_of(mutants.original[name])
    for key in arrays:
        members = {f"{other}.npy": npy(array) for other, array in arrays.items() if other != key}
        error = mutants.judge(f"{name} without {key}", {name: packed(members)})
        assert (error is None) == (key == "index_test")
    error = mutants.judge(f"{name} without anything", {name: packed({})})
    assert error is not None
    assert f"{name}.npz" in error


def test_indptr_that_does_not_rise(mutants: Mutants) -> None:
    """Every exchange of two different neighbours in indptr is found."""
    content = mutants.original["adj"]
    indptr = arrays_of(content)["indptr"]
    for position in np.flatnonzero(np.diff(indptr)).tolist():
        wrong = indptr.copy()
        wrong[[position, position + 1]] = indptr[[position + 1, position]]
        error = mutants.judge(
            f"indptr {position}", {"adj": repacked(content, "indptr", npy(wrong))}
        )
        assert error is not None
        assert "does not rise" in error


# What changes nothing must change nothing.


def harmless(original: Folder) -> dict[str, Folder]:
    """Label -> files that say the same in another way."""
    arrays = {name: arrays_of(content) for name, content in original.items()}
    adj = arrays["adj"]
    matrix = sp.csr_matrix((adj["data"], adj["indices"], adj["indptr"]))
    features, labels = arrays["features"]["data"], arrays["labels"]["data"]
    junk = npy(np.array([b"no", None, {}], dtype=object))

    def one(name: str, key: str, array: Array) -> Folder:
        return {name: repacked(original[name], key, npy(array))}

    same = {
        f"adj as {layout}": {"adj": sparse_npz(getattr(sp, f"{layout}_{kind}")(matrix))}
        for layout in ("csr", "csc", "coo")
        for kind in ("matrix", "array")
    }
    same |= {
        f"{key} as {kind}": one("adj", key, adj[key].astype(kind))
        for key in ("indices", "indptr", "data", "shape")
        for kind in ("i8", ">i8", "u8", ">u2", "i2")
    }
    same |= {f"adj as {kind}": one("adj", "data", adj["data"].astype(kind)) for kind in "?efdg"}
    same |= {
        f"labels as {kind}": one("labels", "data", labels.astype(kind))
        for kind in ("i1", "u1", ">i4", "u8", ">i8")
    }
    same |= {
        f"features as {kind}": one("features", "data", features.astype(kind))
        for kind in (">f4", "f8", ">f8", "g")
    }
    same["features in Fortran order"] = one("features", "data", np.asfortranarray(features))
    same["labels one-hot"] = one("labels", "data", np.eye(3, dtype=np.int64)[labels])
    for name, content in original.items():
        same[f"{name} deflated"] = {name: packed(members_of(content), zipfile.ZIP_DEFLATED)}
        same[f"{name} with more keys"] = {name: repacked(content, "more", npy(np.arange(3)))}
        same[f"{name} behind other bytes"] = {name: b"#!/bin/sh\n" + content}
        same[f"{name} with a pickle aside"] = {name: repacked(content, "junk", junk)}
    for key, nodes in arrays["index"].items():
        same[f"{key} reversed"] = one("index", key, nodes[::-1])
        same[f"{key} as >u2"] = one("index", key, nodes.astype(">u2"))
    return same


# Harmless as well, but nobody is owed them.
MAY_BE_REFUSED = ("behind other bytes", "with a pickle aside")


def members_of(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sparse_npz(matrix: Any) -> bytes:
    buffer = io.BytesIO()
    sp.save_npz(buffer, matrix)
    return buffer.getvalue()


def test_other_spellings_are_the_same_graph(original: Folder, sound: Path, tmp_path: Path) -> None:
    """Layouts, byte orders, widths, compression, more keys, the order of ids: one fingerprint."""
    expected = read(sound).fingerprint()
    for number, (label, changes) in enumerate(harmless(original).items()):
        folder = write_all(tmp_path / str(number), {**original, **changes})
        if label.endswith(MAY_BE_REFUSED):
            assert error_of(folder) is None or "not a readable" in str(error_of(folder)), label
        else:
            assert expected == read(folder).fingerprint(), label


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


def with_member(content: bytes, key: str, member: Deflated) -> bytes:
    kept = [(name, deflated(data)) for name, data in members_of(content).items()]
    others = [(name, data) for name, data in kept if name != f"{key}.npy"]
    return archive_of([*others, (f"{key}.npy", member)])


BOMBS = [
    *(("adj", key) for key in ("indices", "indptr", "format", "shape", "data", "more")),
    *(("labels", key) for key in ("data", "more")),
    *(("features", key) for key in ("data", "more")),
    *(("index", key) for key in ("index_train", "index_test", "more")),
]


@pytest.mark.parametrize(("name", "key"), BOMBS)
def test_archives_that_swell(mutants: Mutants, bomb: Deflated, name: str, key: str) -> None:
    """A file of 1 MB that holds 256 MiB of zeros is refused, or they are left unread."""
    content = with_member(mutants.original[name], key, bomb)
    error, peak = with_peak(mutants, f"{name}/{key} swells", {name: content})
    assert error is not None or key == "more"
    assert peak < EXTRA_MEMORY, f"{peak >> 20} MiB"


@pytest.mark.parametrize("claimed", [0, 100, 1000, 2**32 - 2])
def test_archives_that_lie_about_sizes(mutants: Mutants, bomb: Deflated, claimed: int) -> None:
    """A member that is longer or shorter than the archive says is refused."""
    lie = dataclasses.replace(bomb, size=claimed)
    for name, key in (("labels", "data"), ("adj", "indices"), ("index", "index_val")):
        content = with_member(mutants.original[name], key, lie)
        error, peak = with_peak(mutants, f"{name}/{key} claims {claimed}", {name: content})
        assert error is not None
        assert peak < EXTRA_MEMORY, f"{peak >> 20} MiB"


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


@pytest.mark.parametrize("name", NAMES)
def test_folder_in_place_of_a_file(original: Folder, tmp_path: Path, name: str) -> None:
    """It is an error that names the file."""
    folder = write_all(tmp_path / "graph", original)
    (folder / f"{name}.npz").unlink()
    (folder / f"{name}.npz").mkdir()
    error = error_of(folder)
    assert error is not None
    assert f"{name}.npz" in error


# Several faults at once.


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_several_faults_at_once(
    original: Folder, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any two to four changes of arrays and of their bytes together keep the same promise."""
    changed = dict(original)
    for _ in range(data.draw(st.integers(2, 4))):
        name, key = data.draw(st.sampled_from(PLACES))
        array = mutated(arrays_of(original[name])[key], data.draw(st.sampled_from(list(CHANGES))))
        if array is not None:
            member = bytearray(npy(array))
            for position in data.draw(st.lists(st.integers(0, len(member) - 1), max_size=1)):
                member[position] ^= data.draw(st.integers(1, 255))
            members = {**members_of(changed[name]), f"{key}.npy": bytes(member)}
            changed[name] = packed(members)
    error_of(write_all(tmp_path_factory.mktemp("faults") / "graph", changed))
