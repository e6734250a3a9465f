"""Real graphs through every way in: counts are those of the data's description."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sources import read_with
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset

from grb_check.datasets import Places, find, load_graph_set
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.npz_graph import NPZ_GRAPH
from grb_check.datasets.formats.own_data import OWN_DATA
from grb_check.datasets.formats.planetoid import PLANETOID
from grb_check.datasets.formats.pyg import PYG
from grb_check.errors import DataError

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
PHYSICS = (34493, 247962, 8415, 5)
CLASS_SIZES = {"part05": [106, 768, 52], "part16": [173, 142, 577]}
AS_PYG_NAMES_THEM = {
    "Amazon/Computers": ("amazon_cs", "Computers/raw/amazon_electronics_computers.npz"),
    "CitationFull/DBLP": ("dblp", "CitationFull/dblp/raw/dblp.npz"),
    "Coauthor/Physics": ("coauthor_phy", "coauthor/Physics/raw/ms_academic_phy.npz"),
}
TU = {  # graphs, nodes, edges, node labels; mean nodes, mean edges; largest graph; class sizes
    "mutag": ((188, 3371, 3721, 7), (17.93, 19.79), 28, [63, 125]),
    "proteins": ((1113, 43471, 81044, 3), (39.06, 72.82), 620, [663, 450]),
    "nci1": ((4110, 122747, 132753, 37), (29.87, 32.30), 111, [2053, 2057]),
    "dd": ((1178, 334925, 843046, 89), (284.32, 715.66), 5748, [691, 487]),
}


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
def test_physics_as_a_single_file(real_data: Path) -> None:
    """Counts from 1 to 98 are kept: the matrix has more than the two values of PyG's reader."""
    dataset = read_with(NPZ_GRAPH, "physics", real_data / "medium" / "coauthor_phy.npz")
    assert counts(dataset) == PHYSICS
    assert dataset.graph.x[:2000].unique().numel() > 10


@pytest.mark.parametrize("name", ["pubmed", "refined-cora", "refined-citeseer"])
def test_structure_alone_is_refused(real_data: Path, name: str) -> None:
    """The message says that features are missing."""
    with pytest.raises(DataError, match="has no node features"):
        read_with(NPZ_GRAPH, name, real_data / "structure-only" / f"{name}.npz")


@pytest.mark.parametrize(
    "spec",
    [
        "Amazon/Computers",
        "CitationFull/DBLP",
        pytest.param("Coauthor/Physics", marks=pytest.mark.slow),
    ],
)
def test_pyg_classes(real_data: Path, tmp_path: Path, spec: str) -> None:
    """PyG's classes read the same graphs from their own file names."""
    file, place = AS_PYG_NAMES_THEM[spec]
    path = tmp_path / "user" / place
    path.parent.mkdir(parents=True)
    path.symlink_to(real_data / "medium" / f"{file}.npz")
    before = sorted(tmp_path.rglob("*"))
    dataset = read_with(
        PYG, "x", spec=f"pyg:{spec}", folders=[tmp_path / "user"], home=tmp_path / "home"
    )
    assert SINGLE_FILES.get(f"medium/{file}", PHYSICS) == counts(dataset)
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "expected", "parts"),
    [
        ("Cora", (2708, 5278, 1433, 7), (140, 500, 1000)),
        ("CiteSeer", (3327, 4552, 3703, 6), (120, 500, 1000)),
    ],
)
def test_planetoid_both_ways(
    real_data: Path, tmp_path: Path, graph: str, expected: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    """PyG's class and the raw files give the same dataset with either split; the given one is the
    public one; nothing is written beside the files."""
    before = sorted(real_data.rglob("*"))
    raw = real_data / "planetoid" / graph / "raw"
    for split in ("grb", "given"):
        ours: Any = read_with(PLANETOID, f"planetoid-{graph.lower()}", raw, split=split)
        spec = f"Planetoid/{graph}"
        pyg = read_with(
            PYG, "x", spec=f"pyg:{spec}", folders=[real_data], home=tmp_path, split=split
        )
        assert expected == counts(ours)
        assert ours.fingerprint() == pyg.fingerprint()
    sizes = (ours.train.numel(), ours.val.numel(), ours.test["full"].numel())
    assert parts == sizes
    assert before == sorted(real_data.rglob("*"))


@pytest.mark.slow
@pytest.mark.filterwarnings("error::grb_check.datasets.DataNotice")
@pytest.mark.parametrize("name", TU)
def test_graph_sets(real_data: Path, tmp_path: Path, name: str) -> None:
    """Totals, published means, the largest graph and the sizes of the classes; no notice; one-hot
    features; edges that stay inside their graphs."""
    expected, means, largest, class_sizes = TU[name]
    made = load_graph_set(find(name, Places(folders=(real_data,), home=tmp_path)))
    graphs = made.graphs
    num_edges = graphs.edge_index.shape[1] // 2
    measured = (made.num_graphs, graphs.x.shape[0], num_edges, graphs.x.shape[1])
    assert expected == measured
    assert [round(n / made.num_graphs, 2) for n in (graphs.x.shape[0], num_edges)] == list(means)
    assert largest == int(graphs.ptr.diff().max())
    assert class_sizes == torch.bincount(graphs.y).tolist()
    assert bool((graphs.x.sum(dim=1) == 1).all())
    row, column = graphs.edge_index
    assert graphs.batch[row].equal(graphs.batch[column])
    assert made.train.numel() == int(0.8 * made.num_graphs)


@pytest.mark.slow
def test_graph_set_equals_pygs(real_data: Path, tmp_path: Path) -> None:
    """PROTEINS graph by graph as PyG's TUDataset makes it."""
    shutil.copytree(real_data / "tu" / "PROTEINS" / "raw", tmp_path / "PROTEINS" / "raw")
    theirs = Batch.from_data_list(list(TUDataset(str(tmp_path), "PROTEINS")))
    places = Places(folders=(real_data,), home=tmp_path / "home")
    ours = load_graph_set(find("proteins", places)).graphs
    for key in ("x", "edge_index", "y", "batch", "ptr"):
        assert theirs[key].equal(ours[key])


def test_graph_of_a_users_function(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that reads an npz file itself gives the dataset that the loader gives."""
    path = real_data / "pubmed-parts" / "part05.npz"
    (tmp_path / "my_real_graph.py").write_text(f"""
import numpy as np, scipy.sparse as sp, torch
from torch_geometric.data import Data

def part():
    with np.load({str(path)!r}) as z:
        parts = [z["attr_" + key] for key in ("data", "indices", "indptr", "shape")]
        x = sp.csr_matrix(tuple(parts[:3]), shape=parts[3]).toarray()
        adj = sp.csr_matrix((z["adj_data"], z["adj_indices"], z["adj_indptr"])).tocoo()
        edges = torch.from_numpy(np.stack([adj.row, adj.col]))
        return Data(x=torch.from_numpy(x), edge_index=edges, y=torch.from_numpy(z["labels"]))
""")
    monkeypatch.syspath_prepend(tmp_path)
    own = read_with(OWN_DATA, "x", spec="my_real_graph:part")
    assert read_with(NPZ_GRAPH, "x", path).fingerprint() == own.fingerprint()


def test_features_keep_their_order(real_data: Path) -> None:
    """PubMed's real values rise with the normalised ones, and equal ones stay equal."""
    path = real_data / "pubmed-parts" / "part16.npz"
    with np.load(path) as arrays:
        stored = np.unique(arrays["attr_data"]).size
    assert read_with(NPZ_GRAPH, "x", path).graph.x.unique().numel() == stored + 1  # and zero
