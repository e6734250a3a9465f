"""Four-file directories: valid ones are read unchanged, invalid ones are a DataError."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from grb_check.datasets import DataNotice
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.four_files import load_folder
from grb_check.datasets.splits import grb_split
from grb_check.errors import DataError

Files = dict[str, dict[str, NDArray[Any]]]
NUM_NODES = 20


def ring() -> NDArray[np.int64]:
    """Dense adjacency of a ring with one chord."""
    dense = np.roll(np.eye(NUM_NODES, dtype=np.int64), 1, axis=1)
    dense[0, 10] = 1
    return dense | dense.T


def valid_files() -> Files:
    """A graph of 20 nodes, 21 edges, 3 features, 2 classes."""
    split = grb_split(ring().sum(axis=1), 0)
    features = np.random.default_rng(0).normal(size=(NUM_NODES, 3)).astype(np.float32)
    return {
        "adj": sparse_arrays(sp.csr_matrix(ring().astype(np.float32))),
        "features": {"data": features},
        "labels": {"data": np.arange(NUM_NODES) % 2},
        "index": {
            "index_train": split.train,
            "index_val": split.val,
            "index_test": split.full,
            "index_test_easy": split.easy,
            "index_test_medium": split.medium,
            "index_test_hard": split.hard,
        },
    }


def sparse_arrays(matrix: Any) -> dict[str, NDArray[Any]]:
    """The arrays that scipy itself writes for a matrix."""
    buffer = io.BytesIO()
    sp.save_npz(buffer, matrix)
    buffer.seek(0)
    with np.load(buffer) as archive:
        return dict(archive)


def write(folder: Path, files: Files) -> Path:
    folder.mkdir(exist_ok=True)
    for name, arrays in files.items():
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def read(folder: Path) -> Dataset:
    return load_folder("tiny", folder, origin="made here")


def edges_of(dataset: Dataset) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in dataset.graph.edge_index.T}


def test_valid_folder_is_read_as_it_is(tmp_path: Path) -> None:
    """Edges, labels and split come out as written, without a warning."""
    files = valid_files()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        dataset = read(write(tmp_path, files))
    np.testing.assert_array_equal(dataset.graph.edge_index, np.stack(ring().nonzero()))
    np.testing.assert_array_equal(dataset.graph.x, files["features"]["data"])
    np.testing.assert_array_equal(dataset.graph.y, files["labels"]["data"])
    for part, nodes in {
        "train": dataset.train,
        "val": dataset.val,
        "test": dataset.test["full"],
    }.items():
        np.testing.assert_array_equal(nodes, files["index"][f"index_{part}"])
    for level in ("easy", "medium", "hard"):
        np.testing.assert_array_equal(dataset.test[level], files["index"][f"index_test_{level}"])
    assert (dataset.name, dataset.origin, dataset.num_classes) == ("tiny", "made here", 2)


def test_missing_index_test_is_the_union_of_the_levels(tmp_path: Path) -> None:
    """`index_test` may be left out."""
    files = valid_files()
    full = files["index"].pop("index_test")
    np.testing.assert_array_equal(read(write(tmp_path, files)).test["full"], full)


@st.composite
def messy_adjacencies(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Entries with loops, duplicates, one-way edges, weights and stored zeros."""
    node = st.integers(0, NUM_NODES - 1)
    weight = st.sampled_from([1.0, 1.0, 0.0, 2.5, -1.0])
    entries = draw(st.lists(st.tuples(node, node, weight), max_size=40))
    entries.append((0, 1, 1.0))
    rows, columns, weights = zip(*entries, strict=True)
    return np.array([rows, columns]), np.array(weights, dtype=np.float32)


@settings(deadline=None, max_examples=60)
@given(messy_adjacencies())
def test_messy_adjacency_is_repaired_and_counted(
    tmp_path_factory: pytest.TempPathFactory,
    messy: tuple[NDArray[np.int64], NDArray[np.float32]],
) -> None:
    """Every non-zero entry off the diagonal is a two-way edge; each kind of repair is counted."""
    (rows, columns), weights = messy
    files = valid_files()
    files["adj"] = {
        "row": rows,
        "col": columns,
        "format": np.array(b"coo"),
        "shape": np.array([NUM_NODES, NUM_NODES]),
        "data": weights,
    }
    retained = [
        (a, b, w) for a, b, w in zip(rows.tolist(), columns.tolist(), weights, strict=True) if w
    ]
    links = [(a, b) for a, b, _ in retained if a != b]
    two_way = set(links) | {(b, a) for a, b in links}
    counts = {
        "self-loops dropped": len(retained) - len(links),
        "duplicate entries merged": len(links) - len(set(links)),
        "one-way edges made two-way": len(two_way) - len(set(links)),
        "edge weights set to 1": sum(a != b and w != 1 for a, b, w in retained),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = read(write(tmp_path_factory.mktemp("messy"), files))
    assert two_way == edges_of(dataset)
    said = [
        str(w.message).split("adj.npz: ")[1] for w in caught if issubclass(w.category, DataNotice)
    ]
    message = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    assert ([message] if message else []) == said


def test_class_without_nodes_is_noticed(tmp_path: Path) -> None:
    """Labels 0 and 2 leave class 1 empty: three classes, and a warning."""
    files = valid_files()
    files["labels"]["data"] = files["labels"]["data"] * 2
    with pytest.warns(DataNotice, match="no node in 1 class of 3, the first is 1"):
        assert read(write(tmp_path, files)).num_classes == 3


def changed(array: NDArray[Any], position: Any, value: Any) -> NDArray[Any]:
    copy = array.copy()
    copy[position] = value
    return copy


def put(name: str, key: str, change: Callable[[NDArray[Any]], Any]) -> Callable[[Files], None]:
    """A fault: one array replaced."""

    def apply(files: Files) -> None:
        files[name][key] = np.asarray(change(files[name][key]))

    return apply


def drop(name: str, key: str) -> Callable[[Files], None]:
    """A fault: one key missing."""

    def apply(files: Files) -> None:
        del files[name][key]

    return apply


FAULTS: dict[str, tuple[Callable[[Files], None], str]] = {
    "adj no format": (drop("adj", "format"), r"adj\.npz: key 'format' is missing"),
    "adj no indices": (drop("adj", "indices"), r"adj\.npz: key 'indices' is missing; it has"),
    "adj format": (
        put("adj", "format", lambda a: b"dia"),
        "format 'dia' is not one of csr, ",
    ),
    "adj not square": (put("adj", "shape", lambda a: [20, 21]), r"shape \[20, 21\]"),
    "adj huge": (put("adj", "shape", lambda a: [2**62, 2**62]), "shape"),
    "adj too few nodes": (put("adj", "shape", lambda a: [19, 19]), "indptr has 21 values"),
    "adj negative indptr": (put("adj", "indptr", lambda a: changed(a, 1, -1)), "does not rise"),
    "adj short data": (put("adj", "data", lambda a: a[:-1]), "must be equal"),
    "adj column": (put("adj", "indices", lambda a: changed(a, 0, 20)), "1 index lies outside 0"),
    "adj float indices": (put("adj", "indices", lambda a: a.astype(float)), "row of integers"),
    "adj nan": (put("adj", "data", lambda a: changed(a, 0, np.nan)), "NaN or infinite in 1 entry"),
    "adj empty": (put("adj", "data", lambda a: a * 0), "no edges"),
    "features no data": (drop("features", "data"), r"features\.npz: key 'data' is missing"),
    "features short": (
        put("features", "data", lambda a: a[:-1]),
        "features of 19 nodes, but there are 20",
    ),
    "features nan": (
        put("features", "data", lambda a: changed(a, ([4, 7], 1), np.nan)),
        "NaN or infinite as float32 in 2 values of 2 rows, the first in row 4",
    ),
    "features overflow": (put("features", "data", lambda a: a.astype(float) * 1e300), "infinite"),
    "labels of two classes at once": (
        put("labels", "data", lambda a: np.ones((a.size, 2))),
        r"shape \[20, 2\] are not one-hot",
    ),
    "labels of words": (put("labels", "data", lambda a: a.astype(str)[:, None]), "class numbers"),
    "labels high": (put("labels", "data", lambda a: a * 20), "range from 0 to 20; allowed are 0"),
    "labels beyond": (
        put("labels", "data", lambda a: a.astype("u8") + np.uint64(2**63)),
        "beyond int64",
    ),
    "labels one class": (put("labels", "data", lambda a: a * 0), "two classes"),
    "index no train": (drop("index", "index_train"), "key 'index_train' is missing"),
    "index empty": (put("index", "index_train", lambda a: a[:0]), "index_train is empty"),
    "index high": (put("index", "index_val", lambda a: changed(a, 0, 20)), "node 20 lies outside"),
    "index twice": (
        put("index", "index_train", lambda a: changed(a, 0, a[1])),
        "index_train: 1 duplicates",
    ),
    "index union": (put("index", "index_test", lambda a: a[:-1]), "not the union"),
    "index objects": (
        put("index", "index_val", lambda a: a.astype(object)),
        r"index\.npz.*[Oo]bject",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named(tmp_path: Path, fault: str) -> None:
    """Each fault is a DataError in one line that names the file."""
    damage, message = FAULTS[fault]
    files = valid_files()
    damage(files)
    with pytest.raises(DataError, match=message) as raised:
        read(write(tmp_path, files))
    assert f"{fault.split()[0]}.npz" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_overlapping_parts_are_named(tmp_path: Path) -> None:
    """A node in training and test is a leak."""
    files = valid_files()
    index = files["index"]
    index["index_train"] = np.append(index["index_train"], index["index_test_hard"][0])
    with pytest.raises(DataError, match="index_train and index_test_hard share 1 node,"):
        read(write(tmp_path, files))


def is_error_or_sound(folder: Path) -> None:
    """Reading raises DataError or gives a graph that keeps every promise of `Dataset`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        try:
            dataset = read(folder)
        except DataError:
            return
    edge_index, size = dataset.graph.edge_index, dataset.num_nodes
    keys = edge_index[0] * size + edge_index[1]
    assert 0 <= edge_index.min() <= edge_index.max() < size
    assert (keys.diff() > 0).all()
    assert torch.equal((edge_index[1] * size + edge_index[0]).sort().values, keys)
    assert (edge_index[0] != edge_index[1]).all()
    assert torch.isfinite(dataset.graph.x).all()
    assert (size,) == dataset.graph.y.shape == dataset.graph.x.shape[:1]
    assert 0 <= dataset.graph.y.min() <= dataset.graph.y.max() < dataset.num_classes
    parts = [dataset.train, dataset.val, *(dataset.test[k] for k in ("easy", "medium", "hard"))]
    nodes = torch.cat(parts)
    assert all(part.numel() for part in parts)
    assert nodes.unique().numel() == nodes.numel()
    assert 0 <= nodes.min() <= nodes.max() < size


@settings(deadline=None, max_examples=80)
@given(data=st.data(), name=st.sampled_from(["adj", "features", "labels", "index"]))
def test_damaged_bytes_are_an_error_or_do_no_harm(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    """Truncated files and flipped bytes never raise anything but DataError."""
    path = write(tmp_path_factory.mktemp("bytes"), valid_files()) / f"{name}.npz"
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    is_error_or_sound(path.parent)


PLACES = [(name, key) for name, arrays in valid_files().items() for key in arrays]
NUMBERS = st.integers(-3, 45) | st.sampled_from([2**31, -(2**31), 2**63 - 1])
DTYPES = ["i1", "u1", "i4", "u8", "f2", ">f8", "c8", "?", "U3", "S3", "M8[s]"]


@settings(deadline=None, max_examples=150)
@given(data=st.data(), place=st.sampled_from(PLACES))
def test_damaged_arrays_are_an_error_or_do_no_harm(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, place: tuple[str, str]
) -> None:
    """Readable files with wrong values, lengths, dtypes or shapes never do either."""
    name, key = place
    files = valid_files()
    array = files[name][key]
    kind = data.draw(st.sampled_from(["value", "dtype", "length", "dimension"]))
    if kind == "value" and array.size and array.dtype.kind in "iuf":
        flat = array.astype(np.float64 if array.dtype.kind == "f" else np.int64).ravel()
        flat[data.draw(st.integers(0, flat.size - 1))] = data.draw(NUMBERS)
        array = flat.reshape(array.shape)
    elif kind == "dtype" and array.dtype.kind != "S":
        with np.errstate(all="ignore"):
            array = array.astype(data.draw(st.sampled_from(DTYPES)))
    elif kind == "length":
        size = data.draw(st.integers(0, 50))
        array = np.resize(array, (size, *array.shape[1:])) if size else array.ravel()[:0]
    else:
        array = array[None] if data.draw(st.booleans()) else array.ravel()
    files[name][key] = array
    is_error_or_sound(write(tmp_path_factory.mktemp("arrays"), files))
