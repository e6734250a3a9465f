"""GraphSAINT's files become GRB's graphs: standardised and checked; faults are DataErrors."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.datasets import Flickr

from grb_check.datasets import DataNotice
from grb_check.datasets.reading.saint_files import fetch_upstream, load_saint, rebuild
from grb_check.errors import DataError

NUM_NODES = 40


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
    """The ring, GRB's split, features that are standardised by column; no
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
    expected = (raw - raw.mean(axis=0)) / deviation
    assert np.allclose(expected, dataset.graph.x.numpy(), atol=1e-6)
    assert before == sorted(tmp_path.rglob("*"))


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
        ({"adjacency": {"data": np.array([object()] * 80)}}, "Object arrays cannot be loaded"),
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
