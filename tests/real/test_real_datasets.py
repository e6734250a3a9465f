"""Real graphs have their published counts, and the split its published degrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.utils import degree

from grb_check.datasets import Places, find, load
from grb_check.datasets.published import degrees_of
from grb_check.datasets.splits import Int64Array, grb_split

pytestmark = pytest.mark.real

FOUR_FILES = Path("grb-format", "planetoid-cora")
PUBLISHED_DEGREES = {  # GRB, Table 4
    "refined-cora": {"easy": 1.53, "medium": 2.96, "hard": 5.23, "full": 3.24},
    # without 1.01 for easy, see below
    "refined-citeseer": {"medium": 1.74, "hard": 3.82, "full": 2.19},
}


def structure_degrees(path: Path) -> Int64Array:
    with np.load(path) as arrays:
        matrix = sp.csr_matrix(
            (arrays["adj_data"], arrays["adj_indices"], arrays["adj_indptr"]),
            shape=arrays["adj_shape"],
        )
    both = ((matrix + matrix.T) != 0).astype(np.int64)
    return np.asarray(both.sum(axis=1)).ravel() - both.diagonal()


@pytest.mark.parametrize(
    ("name", "counts", "isolated", "empty_rows"),
    [
        ("planetoid-cora", (2708, 5278, 1433, 7), 0, 0),
        ("planetoid-citeseer", (3327, 4552, 3703, 6), 48, 15),
    ],
)
def test_planetoid_counts(
    real_data: Path, name: str, counts: tuple[int, ...], isolated: int, empty_rows: int
) -> None:
    """Nodes, edges, features, classes, isolated nodes and all-zero rows are the known ones."""
    dataset = load(find(name, Places(folders=(real_data,))))
    graph = dataset.graph
    measured = (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)
    assert counts == measured
    assert isolated == int((degree(graph.edge_index[0], dataset.num_nodes) == 0).sum())
    assert empty_rows == int((graph.x == graph.x.min()).all(dim=1).sum())
    tenth = dataset.num_nodes // 10
    assert [tenth] * 3 == [dataset.test[k].numel() for k in ("easy", "medium", "hard")]


def test_four_file_cora_is_planetoid_cora(real_data: Path) -> None:
    """The four-file directory has the same features, edges and labels as Planetoid's files."""
    folder = load(find(str(real_data / FOUR_FILES)))
    planetoid = load(find("planetoid-cora", Places(folders=(real_data,))))
    for key in ("x", "edge_index", "y"):
        assert torch.equal(folder.graph[key], planetoid.graph[key])
    assert folder.num_classes == planetoid.num_classes


def test_split_is_the_one_that_grbs_code_draws(real_data: Path) -> None:
    """The four-file Cora was split by another party with GRB's code: node for node the same."""
    dataset = load(find(str(real_data / FOUR_FILES)))
    split = grb_split(degrees_of(dataset).numpy())
    assert split.train.tolist() == dataset.train.tolist()
    assert split.val.tolist() == dataset.val.tolist()
    for level, nodes in dataset.test.items():
        assert getattr(split, level).tolist() == nodes.tolist()


@pytest.mark.parametrize("name", PUBLISHED_DEGREES)
def test_split_gives_the_published_average_degrees(real_data: Path, name: str) -> None:
    """On the graphs that GRB took, to the printed digits (Table 4)."""
    degrees = structure_degrees(real_data / "structure-only" / f"{name}.npz")
    split = grb_split(degrees)
    measured = {
        level: round(float(degrees[getattr(split, level)].mean()), 2)
        for level in PUBLISHED_DEGREES[name]
    }
    assert PUBLISHED_DEGREES[name] == measured
