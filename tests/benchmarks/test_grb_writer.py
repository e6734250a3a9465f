"""Written directories are read back unchanged, are complete or absent, and are reproducible."""

from __future__ import annotations

import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.grb_writer import write_folder
from grb_check.datasets import DataNotice
from grb_check.datasets.normalisation import normalise
from grb_check.datasets.reading.four_files import load_folder
from grb_check.datasets.splits import grb_split
from grb_check.errors import UsageError

FILES = {"adj.npz", "features.npz", "labels.npz", "index.npz"}


def graph(seed: int = 0, num_nodes: int = 20) -> dict[str, Any]:
    """Arguments of `write_folder`: a random graph over a ring, two classes."""
    rng = np.random.default_rng(seed)
    dense = np.roll(np.eye(num_nodes, dtype=bool), 1, axis=1)
    dense |= np.triu(rng.random(dense.shape) < 0.1, 1)
    adjacency = sp.csr_matrix((dense | dense.T).astype(np.float32))
    return {
        "adjacency": adjacency,
        "features": rng.normal(size=(num_nodes, 3)).astype(np.float32),
        "labels": rng.permutation(np.arange(num_nodes) % 2),
        "split": grb_split(np.diff(adjacency.indptr).astype(np.int64)),
    }


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), size=st.integers(10, 60), compress=st.booleans())
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int, compress: bool
) -> None:
    """The loader returns edges, features, labels and split of any graph, and has no notice."""
    given_graph = graph(seed, size)
    folder = tmp_path_factory.mktemp("written") / "graph"
    write_folder(folder, **given_graph, compress=compress)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        dataset = load_folder("graph", folder, origin="made here")
    expected = np.stack(given_graph["adjacency"].nonzero())
    np.testing.assert_array_equal(expected, dataset.graph.edge_index)
    np.testing.assert_array_equal(normalise(given_graph["features"])[0], dataset.graph.x)
    np.testing.assert_array_equal(given_graph["labels"], dataset.graph.y)
    np.testing.assert_array_equal(given_graph["split"].train, dataset.train)
    np.testing.assert_array_equal(given_graph["split"].val, dataset.val)
    for level, nodes in dataset.test.items():
        np.testing.assert_array_equal(getattr(given_graph["split"], level), nodes)


def test_scipy_and_numpy_read_the_files(tmp_path: Path) -> None:
    """`adj.npz` has the keys, order and dtypes of `scipy.sparse.save_npz`."""
    given_graph = graph()
    write_folder(tmp_path / "graph", **given_graph, compress=True)
    sp.save_npz(tmp_path / "adj.npz", given_graph["adjacency"])
    again = sp.load_npz(tmp_path / "graph" / "adj.npz")
    assert (again != given_graph["adjacency"]).nnz == 0
    with np.load(tmp_path / "graph" / "adj.npz") as ours, np.load(tmp_path / "adj.npz") as theirs:
        kinds = [(key, theirs[key].dtype) for key in theirs.files]
        assert kinds == [(key, ours[key].dtype) for key in ours.files]


@pytest.mark.parametrize("compress", [True, False])
def test_bytes_depend_on_the_arrays_only(tmp_path: Path, compress: bool) -> None:
    """Two directories of one graph are equal byte for byte, and no member has a date."""
    for name in ("one", "other"):
        write_folder(tmp_path / name, **graph(), compress=compress)
    for file in sorted(FILES):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
        with zipfile.ZipFile(tmp_path / "one" / file) as archive:
            wanted = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
            for member in archive.infolist():
                assert (member.date_time, member.create_system) == ((1980, 1, 1, 0, 0, 0), 3)
                assert wanted == member.compress_type


def test_only_the_four_files_are_left(tmp_path: Path) -> None:
    """Parents are created, and no temporary directory remains."""
    write_folder(tmp_path / "new" / "graph", **graph(), compress=False)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["graph"]
    assert {path.name for path in (tmp_path / "new" / "graph").iterdir()} == FILES


def test_folder_that_exists_keeps_its_other_files(tmp_path: Path) -> None:
    """The four files are replaced, a note beside them is not touched."""
    for seed in (1, 0):
        write_folder(tmp_path / "graph", **graph(seed), compress=False)
        (tmp_path / "graph" / "note.txt").write_text("mine")
    write_folder(tmp_path / "fresh", **graph(0), compress=False)
    for file in sorted(FILES):
        replaced = (tmp_path / "graph" / file).read_bytes()
        assert (tmp_path / "fresh" / file).read_bytes() == replaced
    assert (tmp_path / "graph" / "note.txt").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"graph", "fresh"}


def test_nothing_is_left_of_a_folder_that_failed(tmp_path: Path) -> None:
    """Features that cannot be written leave neither a directory nor a temporary one."""
    broken = {**graph(), "features": np.array([[None]], dtype=object)}
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        write_folder(tmp_path / "graph", **broken, compress=False)
    assert list(tmp_path.iterdir()) == []


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in the place of the directory is a UsageError in one line that names it."""
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "graph"):
        with pytest.raises(UsageError, match="cannot be written") as raised:
            write_folder(folder, **graph(), compress=False)
        assert str(folder) in str(raised.value)
        assert "\n" not in str(raised.value)
    assert (tmp_path / "file").read_text() == "in the way"


def test_large_arrays_are_streamed(tmp_path: Path) -> None:
    """Writing 64 MiB of features takes less than another 32 MiB."""
    large = {**graph(), "features": np.zeros((1 << 14, 1 << 10), dtype=np.float32)}
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        write_folder(tmp_path / "graph", **large, compress=False)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
