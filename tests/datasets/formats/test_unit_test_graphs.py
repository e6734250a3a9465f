"""The graphs and splits of the published unit test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unit_test_file as made

from grb_check import datasets
from grb_check.datasets import Places
from grb_check.errors import DataError, UsageError


def places(folder: Path, **changes: Any) -> Places:
    return Places(folders=(folder,), home=folder / "home", **({"split": "given"} | changes))


def test_a_graph_comes_with_the_split_that_is_named(tmp_path: Path) -> None:
    """Edges are symmetrized, features are those coordinates, and `full` are its test nodes."""
    made.write(tmp_path / "unit_test.npz")
    arrays = made.arrays()
    source = datasets.find("unit-test:citeseer/3", places(tmp_path))
    dataset = datasets.load(source)
    assert (source.name, dataset.num_nodes) == ("unit-test-citeseer-3", made.NODES)
    edges = {tuple(each) for each in arrays["citeseer/dataset/adjacency"].tolist()}
    both = edges | {(second, first) for first, second in edges}
    assert {*map(tuple, dataset.graph.edge_index.T.tolist())} == both
    assert dataset.num_edges == len(edges)
    high = np.argwhere((dataset.graph.x > dataset.graph.x.min()).numpy())
    assert high.tolist() == arrays["citeseer/dataset/features"].tolist()
    assert dataset.graph.y.tolist() == arrays["citeseer/dataset/labels"].tolist()
    parts = {"train": dataset.train, "val": dataset.val, "test": dataset.test["full"]}
    for part, nodes in parts.items():
        assert nodes.tolist() == sorted(arrays[f"citeseer/splits/3/{part}"].tolist())


def test_it_can_be_split_as_grb_does_and_have_another_name(tmp_path: Path) -> None:
    """The graph is one like any other."""
    made.write(tmp_path / "unit_test.npz")
    source = datasets.find("mine=unit-test:cora_ml/0", places(tmp_path, split="grb"))
    dataset = datasets.load(source)
    assert (dataset.name, dataset.test["easy"].numel()) == ("mine", made.NODES // 10)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("unit-test:cora/0", "'cora/0' is not one of the unit test; give unit-test:GRAPH/SPLIT"),
        ("unit-test:cora_ml/5", "a split from 0 to 4"),
        ("unit-test:cora_ml", "is not one of the unit test"),
        ("unit-test:cora_ml/0", r"no unit_test\.npz in .*; download unit_test\.npz from"),
    ],
)
def test_other_names_and_a_missing_file_say_what_to_do(
    tmp_path: Path, spec: str, told: str
) -> None:
    """Where the file is to be had."""
    with pytest.raises(UsageError, match=told):
        datasets.find(spec, places(tmp_path))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("cora_ml/dataset/features", np.array([1, 2]), r"must be integers \[ones, 2\]"),
        ("cora_ml/dataset/features", np.array([[made.NODES, 0]]), "has rows outside 0 .. 119"),
        ("cora_ml/dataset/features", np.array([[0, 2**60]]), "8 GiB|more than|GiB|bytes"),
        ("cora_ml/dataset/adjacency", np.array([[0, 999]]), "lie outside 0 .. 119"),
        ("cora_ml/dataset/adjacency", np.zeros((2, 3)), "must be node ids"),
        ("cora_ml/dataset/labels", np.array(["a"]), "one row of integers"),
        ("cora_ml/splits/0/train", np.array([-1]), "has nodes outside 0 .. 119"),
        ("cora_ml/splits/0/val", np.array([], dtype=int), "no validation nodes"),
    ],
)
def test_a_damaged_file_is_a_data_error(
    tmp_path: Path, key: str, value: np.ndarray[Any, Any], told: str
) -> None:
    """That names the key."""
    made.write(tmp_path / "unit_test.npz", **{key: value})
    with pytest.raises(DataError, match=told):
        datasets.load(datasets.find("unit-test:cora_ml/0", places(tmp_path)))
