"""Planetoid's raw files are read through PyG; failures are DataErrors."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sources import read_with

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.planetoid import PLANETOID
from grb_check.datasets.source import SplitRule
from grb_check.errors import DataError

NUM_NODES, NUM_TEST = 540, 10  # PyG takes 500 nodes after the labelled ones for validation


def write_raw(root: Path, prefix: str = "cora") -> Path:
    """A ring of 540 nodes with 4 features and 3 classes as Planetoid's files."""
    raw = root / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    features = sp.csr_matrix((rng.random((NUM_NODES, 4)) < 0.5).astype(np.float32))
    labels = np.eye(3, dtype=np.int32)[np.arange(NUM_NODES) % 3]
    known = NUM_NODES - NUM_TEST
    ring = {i: [(i - 1) % NUM_NODES, (i + 1) % NUM_NODES, i] for i in range(NUM_NODES)}
    contents = {
        "x": features[:6],
        "tx": features[known:],
        "allx": features[:known],
        "y": labels[:6],
        "ty": labels[known:],
        "ally": labels[:known],
        "graph": defaultdict(list, ring),
    }
    for part, content in contents.items():
        (raw / f"ind.{prefix}.{part}").write_bytes(pickle.dumps(content, protocol=2))
    (raw / f"ind.{prefix}.test.index").write_text(
        "".join(f"{node}\n" for node in range(known, NUM_NODES))
    )
    return raw


def read(root: Path, split: SplitRule = "grb") -> Dataset:
    return read_with(PLANETOID, "planetoid-cora", root / "raw", split=split)


def test_graph_is_read_and_folder_left_alone(tmp_path: Path) -> None:
    """540 nodes, 540 edges, 3 classes, GRB's shares; nothing is written beside the raw files."""
    raw = write_raw(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    dataset = read(tmp_path)
    counts = (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)
    assert counts == (540, 540, 4, 3)
    assert (dataset.train.numel(), dataset.val.numel()) == (324, 54)
    assert {level: nodes.numel() for level, nodes in dataset.test.items()} == {
        "easy": 54,
        "medium": 54,
        "hard": 54,
        "full": 162,
    }
    assert str(raw) in dataset.origin
    assert before == sorted(tmp_path.rglob("*"))


def test_reading_twice_gives_the_same_dataset(tmp_path: Path) -> None:
    """Nothing in it is left to chance."""
    write_raw(tmp_path)
    assert read(tmp_path).fingerprint() == read(tmp_path).fingerprint()


def test_given_split_is_the_public_one(tmp_path: Path) -> None:
    """The labelled nodes, the 500 after them, and those of the test index."""
    write_raw(tmp_path)
    dataset = read(tmp_path, "given")
    assert dataset.train.tolist() == list(range(6))
    assert dataset.val.tolist() == list(range(6, 506))
    assert dataset.test["full"].tolist() == list(range(NUM_NODES - NUM_TEST, NUM_NODES))
    assert "own split" in dataset.origin


def test_fewer_features_than_labels_is_a_data_error(tmp_path: Path) -> None:
    """Rows of features and labels must agree, or PyG's reader cannot place the test nodes."""
    path = write_raw(tmp_path) / "ind.cora.tx"
    path.write_bytes(pickle.dumps(sp.csr_matrix(np.ones((NUM_TEST - 1, 4), np.float32))))
    with pytest.raises(DataError, match=r"cannot be read|540 labels, but"):
        read(tmp_path)
