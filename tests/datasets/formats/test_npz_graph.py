"""Single npz files: real features survive, faults are DataErrors, pickles are never touched."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import read_with

from grb_check.datasets.formats.npz_graph import NPZ_GRAPH
from grb_check.datasets.source import DataNotice
from grb_check.errors import DataError

load_npz_graph = partial(read_with, NPZ_GRAPH)

NUM_NODES = 30


def members() -> dict[str, Any]:
    """A ring of 30 nodes, stored both ways, with 5 sparse real features and 3 classes."""
    ring = sp.csr_array(
        (np.ones(NUM_NODES), (np.arange(NUM_NODES), (np.arange(NUM_NODES) + 1) % NUM_NODES))
    )
    adjacency = sp.csr_array(ring + ring.T)
    features = sp.csr_array(np.random.default_rng(0).random((NUM_NODES, 5)).round(1))
    parts = {"adj": adjacency, "attr": features}
    stored = {
        f"{prefix}_{part}": np.asarray(getattr(matrix, part))
        for prefix, matrix in parts.items()
        for part in ("data", "indices", "indptr", "shape")
    }
    return {**stored, "labels": np.arange(NUM_NODES) % 3}


def write(folder: Path, **changes: Any) -> Path:
    """The file, with members replaced, or left out where the change is None."""
    path = folder / "graph.npz"
    stored = {key: value for key, value in {**members(), **changes}.items() if value is not None}
    np.savez(path, **stored)
    return path


def test_dense_features_give_the_same_dataset(tmp_path: Path) -> None:
    """`attr_matrix` in place of the CSR members changes nothing."""
    sparse = load_npz_graph("ring", write(tmp_path))
    parts = members()
    shape = tuple(parts["attr_shape"])
    raw = sp.csr_array((parts["attr_data"], parts["attr_indices"], parts["attr_indptr"]), shape)
    none = dict.fromkeys(("attr_data", "attr_indices", "attr_indptr", "attr_shape"))
    path = write(tmp_path, attr_matrix=raw.toarray().astype(np.float32), **none)
    assert sparse.fingerprint() == load_npz_graph("ring", path).fingerprint()


def test_another_layout_is_named(tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    np.savez(path, node_features=np.zeros((3, 2)), edges=np.zeros((4, 2), np.int64))
    with pytest.raises(DataError, match="has node_features, edges, which is another layout"):
        load_npz_graph("graph", path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attr_data": None}, "has no node features"),
        ({"labels": None}, "'labels' is missing"),
        ({"adj_indptr": None}, "'adj_indptr' is missing"),
        ({"labels": np.zeros(29, np.int64)}, r"labels \[29\], but 30 nodes"),
        ({"labels": np.array([object()] * 30)}, "Object arrays cannot be loaded"),
        ({"labels": np.linspace(0, 1, 30)}, "integers"),
        ({"adj_shape": np.array([30, 31])}, "not that of an adjacency matrix"),
        ({"attr_shape": np.array([29, 5])}, "attr: indptr does not rise"),
        ({"attr_shape": np.array([30, 10**9])}, "GiB"),
        ({"attr_shape": np.array([30, 2])}, r"indices run from 0 to 4; allowed are 0 \.\. 1"),
        ({"attr_shape": np.array([0, 5])}, "not that of a feature matrix"),
        ({"attr_data": np.ones(3)}, "need as many real numbers"),
        ({"attr_indptr": np.arange(31.0)}, "one row of integers"),
        ({"adj_indices": np.full(60, 30)}, r"outside 0 \.\. 29"),
    ],
)
def test_fault_is_a_data_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """The message names the file and the fault, in one line."""
    path = write(tmp_path, **changes)
    with pytest.raises(DataError, match=message) as raised:
        load_npz_graph("ring", path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_damaged_bytes_raise_nothing_but_data_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One byte changed, or the end cut off: the same dataset, or a DataError."""
    folder = tmp_path_factory.mktemp("npz")
    path = write(folder)
    whole = load_npz_graph("ring", path).fingerprint()
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:position]
    else:
        content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with warnings.catch_warnings(), suppress(DataError):
        warnings.simplefilter("ignore", DataNotice)
        assert whole == load_npz_graph("ring", path).fingerprint()
