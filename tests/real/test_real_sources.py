"""Real graphs through every way in: counts are those of the data's description."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from sources import read_with
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset

from grb_check.datasets import Places, find, load_graph_set
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.npz_graph import NPZ_GRAPH

# Many of the files list each edge once, or have self-loops: that is what the notices say.
pytestmark = [
    pytest.mark.real,
    pytest.mark.filterwarnings("ignore::grb_check.datasets.DataNotice"),
]

SINGLE_FILES = {  # nodes, edges, features, classes
    "npz/cora": (2708, 5278, 1433, 7),
    "npz/citeseer": (3312, 4536, 3703, 6),
    "medium/amazon_cs": (13752, 245861, 767, 10),
    "medium/dblp": (17716, 52867, 1639, 4),
    "pubmed-parts/part05": (926, 1617, 500, 3),
    "pubmed-parts/part16": (892, 1372, 500, 3),
}
CLASS_SIZES = {"part05": [106, 768, 52], "part16": [173, 142, 577]}


def counts(dataset: Dataset) -> tuple[int, ...]:
    return (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)


def levels(dataset: Dataset) -> list[int]:
    return [dataset.test[level].numel() for level in ("easy", "medium", "hard")]


@pytest.mark.parametrize("file", SINGLE_FILES)
def test_single_files(real_data: Path, file: str) -> None:
    """Nodes, edges, features and classes of each npz file, and a tenth of the nodes a level."""
    path = real_data / f"{file}.npz"
    dataset = read_with(NPZ_GRAPH, path.stem, path)
    assert SINGLE_FILES[file] == counts(dataset)
    assert [dataset.num_nodes // 10] * 3 == levels(dataset)
    sizes = CLASS_SIZES.get(path.stem)
    assert sizes is None or sizes == torch.bincount(dataset.graph.y).tolist()


@pytest.mark.slow
def test_graph_set_equals_pygs(real_data: Path, tmp_path: Path) -> None:
    """PROTEINS graph by graph as PyG's TUDataset makes it."""
    shutil.copytree(real_data / "tu" / "PROTEINS" / "raw", tmp_path / "PROTEINS" / "raw")
    theirs = Batch.from_data_list(list(TUDataset(str(tmp_path), "PROTEINS")))
    places = Places(folders=(real_data,), home=tmp_path / "home")
    ours = load_graph_set(find("proteins", places)).graphs
    for key in ("x", "edge_index", "y", "batch", "ptr"):
        assert theirs[key].equal(ours[key])
