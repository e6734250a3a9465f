"""GraphSAINT's files become GRB's graphs: standardised and checked; faults are DataErrors."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import read_with
from torch_geometric.datasets import Flickr

from grb_check.datasets import DataNotice
from grb_check.datasets.formats.pyg import PYG
from grb_check.datasets.normalisation import normalise
from grb_check.datasets.reading.saint_files import fetch_upstream, load_saint, rebuild, standardise
from grb_check.errors import DataError

NUM_NODES = 40
PEAK = """
import resource, sys
from pathlib import Path
from grb_check.datasets.reading.saint_files import load_saint, standardise
from grb_check.datasets import assembly
import numpy
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
arrays = load_saint(Path(sys.argv[1]))
standardise(arrays.features)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def features() -> np.ndarray[Any, Any]:
    """Four columns of different scales, the last one constant; float64 as in the files."""
    columns = np.random.default_rng(0).normal(size=(NUM_NODES, 4)) * [1, 10, 100, 0] + [0, 5, -1, 7]
    return np.asarray(columns)


def write(raw: Path, **changes: Any) -> Path:
    """A ring of 40 nodes with 3 classes as GraphSAINT's four files."""
    raw.mkdir(parents=True, exist_ok=True)
    following = (np.arange(NUM_NODES) + 1) % NUM_NODES
    ring = sp.csr_array((np.ones(NUM_NODES, dtype=bool), (np.arange(NUM_NODES), following)))
    adjacency = sp.csr_array(ring + ring.T)
    parts = ("data", "indices", "indptr", "shape")
    stored = {part: np.asarray(getattr(adjacency, part)) for part in parts}
    np.savez(raw / "adj_full.npz", **{**stored, **changes.get("adjacency", {})})
    np.save(raw / "feats.npy", changes.get("features", features()))
    classes = changes.get("classes", {str(i): i % 3 for i in range(NUM_NODES)})
    (raw / "class_map.json").write_text(json.dumps(classes))
    (raw / "role.json").write_text(json.dumps({"tr": [0], "va": [1], "te": [2]}))
    return raw


@pytest.mark.parametrize(("name", "folder"), [("grb-flickr", "Flickr"), ("grb-reddit", "Reddit2")])
def test_rebuilt_graph(tmp_path: Path, name: str, folder: str) -> None:
    """The ring, GRB's split, features that are standardised by column, then normalised as one; no
    notice, and nothing written."""
    raw_folder = write(tmp_path / "user" / folder / "raw")
    before = sorted(tmp_path.rglob("*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        dataset = rebuild(name, raw_folder)
    counts = (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)
    assert counts == (40, 40, 4, 3)
    assert (dataset.name, dataset.rebuilt) == (name, True)
    assert dataset.origin == f"rebuilt from PyG's {folder}, GRB's split"
    raw = features()
    deviation = np.where(np.arange(4) < 3, raw.std(axis=0), 1)
    expected = normalise(((raw - raw.mean(axis=0)) / deviation).astype(np.float32))[0]
    assert np.allclose(expected, dataset.graph.x.numpy(), atol=1e-6)
    assert before == sorted(tmp_path.rglob("*"))


def test_pyg_reads_the_same_graph(tmp_path: Path) -> None:
    """`pyg:Flickr` on the same raw files: the same edges and labels, features as in the file."""
    raw = write(tmp_path / "Flickr" / "raw", features=features().astype(np.float32))
    rebuilt = rebuild("grb-flickr", raw)
    plain = read_with(PYG, "flickr", spec="pyg:Flickr", folders=[tmp_path], home=tmp_path / "home")
    assert rebuilt.graph.edge_index.equal(plain.graph.edge_index)
    assert rebuilt.graph.y.equal(plain.graph.y)
    low, high = plain.raw_feature_range
    assert (low, high) == pytest.approx((features().min(), features().max()))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    rows=st.integers(2, 50),
    shift=st.floats(-100, 100),
    scale=st.floats(1e-2, 1e3),
)
def test_standardised_columns_and_idempotence(
    seed: int, rows: int, shift: float, scale: float
) -> None:
    """Mean 0 and deviation 1 in each column, or zeros where it is constant; twice is like once."""
    x = (np.random.default_rng(seed).normal(size=(rows, 3)) * scale + shift).astype(np.float32)
    x[:, 2] = shift
    standardise(x)
    assert np.abs(x.mean(axis=0, dtype=np.float64)).max() < 1e-5
    assert np.abs(x.std(axis=0, dtype=np.float64) - [1, 1, 0]).max() < 1e-5
    again = x.copy()
    standardise(again)
    assert np.abs(again - x).max() < 1e-5


def test_blocks_do_not_change_the_result() -> None:
    """More values than one block holds: the same figures as numpy's over all at once."""
    x = np.random.default_rng(0).normal(3, 2, size=(2100, 4096)).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axis=0)) / wide.std(axis=0)
    standardise(x)
    assert np.abs(expected - x).max() < 1e-5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in kB, as Linux gives it")
def test_peak_memory(tmp_path: Path) -> None:
    """Reading and standardising 128 MB of features takes less than 1.5 times that, though the file
    holds them in float64."""
    rows, columns = 125_000, 256
    raw = write(
        tmp_path / "raw",
        adjacency={
            "indices": (np.arange(rows) + 1) % rows,
            "indptr": np.arange(rows + 1),
            "data": np.ones(rows, dtype=bool),
            "shape": np.array([rows, rows]),
        },
        features=np.random.default_rng(0).random((rows, columns)),
        classes={str(i): i % 3 for i in range(rows)},
    )
    command = [sys.executable, "-c", PEAK, str(raw)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    mapped = rows * columns * 8  # pages of the file, which the system takes back when it wants
    assert int(finished.stdout) * 1024 - mapped < 1.5 * rows * columns * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.ones((39, 4))}, r"feats\.npy: features of 39 nodes, but there are 40"),
        ({"features": np.full((40, 4), np.nan)}, "NaN or infinite"),
        ({"features": np.full((40, 4), 1e300)}, "infinite as float32"),
        ({"features": np.ones(40)}, "one matrix of real numbers"),
        ({"features": np.array([{}])}, r"feats\.npy: not a readable npy file"),
        ({"adjacency": {"shape": np.array([40, 41])}}, r"adj_full\.npz: shape"),
        ({"adjacency": {"indices": np.full(80, 40)}}, r"outside 0 \.\. 39"),
        ({"adjacency": {"indptr": np.arange(41)}}, "indptr"),
        ({"adjacency": {"data": np.array([object()] * 80)}}, "never loaded"),
        ({"classes": {"0": 1}}, "class of each of 40 nodes, has 1 node"),
        ({"classes": [1] * 40}, "has another type"),
        ({"classes": {str(i + 1): 0 for i in range(40)}}, "no class for node 0"),
        ({"classes": {str(i): [0, 1] for i in range(40)}}, r"\[0, 1\] is not a class number"),
        ({"classes": {str(i): 0.5 for i in range(40)}}, "0.5 is not a class number"),
        ({"classes": {str(i): 10**30 for i in range(40)}}, "is not a class number"),
    ],
)
def test_fault_is_a_data_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """The message names the file, in one line."""
    raw = write(tmp_path / "raw", **changes)
    with pytest.raises(DataError, match=message) as raised:
        load_saint(raw)
    assert str(raw) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("file", ["adj_full.npz", "feats.npy", "class_map.json"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_truncated_file_is_a_data_error(tmp_path: Path, file: str, kept: float) -> None:
    """A file that was cut off is named."""
    path = write(tmp_path / "raw") / file
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(DataError, match=file):
        load_saint(tmp_path / "raw")


@pytest.mark.parametrize("file", ["adj_full.npz", "feats.npy", "class_map.json"])
def test_missing_file_is_a_data_error(tmp_path: Path, file: str) -> None:
    """The message names it."""
    (write(tmp_path / "raw") / file).unlink()
    with pytest.raises(DataError, match=file):
        rebuild("grb-flickr", tmp_path / "raw")


def test_download_through_pyg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG's `download` fills our directory, without PyG's processing; the second time
    nothing is downloaded."""

    def download(self: Flickr) -> None:
        write(Path(self.raw_dir))

    def process(self: Flickr) -> None:
        raise AssertionError

    monkeypatch.setattr(Flickr, "download", download)
    monkeypatch.setattr(Flickr, "process", process)
    raw = fetch_upstream("grb-flickr", tmp_path)
    assert raw == tmp_path / "pyg" / "Flickr" / "raw"
    assert rebuild("grb-flickr", raw).num_edges == NUM_NODES
    assert sorted(path.name for path in (tmp_path / "pyg" / "Flickr").iterdir()) == [".lock", "raw"]

    def again(self: Flickr) -> None:
        raise AssertionError

    monkeypatch.setattr(Flickr, "download", again)
    assert raw == fetch_upstream("grb-flickr", tmp_path)


def test_unreadable_download_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of Google Drive in place of the features is refused and thrown away."""

    def download(self: Flickr) -> None:
        (write(Path(self.raw_dir)) / "feats.npy").write_text("<html>quota exceeded</html>")

    monkeypatch.setattr(Flickr, "download", download)
    with pytest.raises(DataError, match=r"feats\.npy"):
        fetch_upstream("grb-flickr", tmp_path)
    assert [path.name for path in (tmp_path / "pyg" / "Flickr").iterdir()] == [".lock"]
