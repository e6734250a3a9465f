"""PyG's dataset classes by name: found, downloaded once; users' directories stay unchanged."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.datasets import Amazon

from grb_check.datasets import DataNotice, Places, find, load_graph_set
from grb_check.datasets.formats.pyg import PYG
from grb_check.errors import DataError, UsageError

NUM_NODES = 30
PHOTO = "amazon_electronics_photo.npz"


def write_photo(folder: Path) -> Path:
    """A ring of 30 nodes with 4 binary features and 3 classes as the file of Amazon Photo."""
    folder.mkdir(parents=True)
    following = (np.arange(NUM_NODES) + 1) % NUM_NODES
    dense = (np.random.default_rng(0).random((NUM_NODES, 4)) < 0.5).astype(np.float32)
    rows, columns = dense.nonzero()
    np.savez(
        folder / PHOTO,
        adj_data=np.ones(NUM_NODES, np.float32),
        adj_indices=following,
        adj_indptr=np.arange(NUM_NODES + 1),
        adj_shape=np.array([NUM_NODES, NUM_NODES]),
        attr_data=np.ones(rows.size, np.float32),
        attr_indices=columns,
        attr_indptr=np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=NUM_NODES))]),
        attr_shape=np.array(dense.shape),
        labels=np.arange(NUM_NODES) % 3,
    )
    return folder / PHOTO


def snapshot(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.is_dir())
        for path in [folder, *sorted(folder.rglob("*"))]
    }


def load(
    tmp_path: Path, spec: str = "Amazon/Photo", roots: Sequence[Path] = (), **options: Any
) -> Any:
    folders = tuple(roots) or (tmp_path / "user",)
    places = Places(folders=folders, home=tmp_path / "home", sources=(), **options)
    with PYG.prepared(find(f"mine=pyg:{spec}", places)) as source:
        return PYG.read(source)


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that PyG's own download copies, over a file:// URL."""
    monkeypatch.setattr(Amazon, "url", f"file://{tmp_path}/origin/")
    return write_photo(tmp_path / "origin")


@pytest.mark.parametrize("inside", ["Photo", "Amazon/Photo", "amazon/Photo"])
def test_raw_files_are_found_and_left_alone(
    tmp_path: Path,
    inside: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In all three places; nothing is written, printed or warned of."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # PyG prints nothing where it is set
    user = tmp_path / "user"
    write_photo(user / inside / "raw")
    before = snapshot(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        dataset = load(tmp_path)
    counts = (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)
    assert counts == (30, 30, 4, 3)
    assert dataset.name == "mine"
    assert dataset.origin == "PyG Amazon/Photo, GRB's split"
    assert before == snapshot(tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [None, b"", b"<html>Please log in</html>"])
def test_bad_download_leaves_nothing_to_believe(
    tmp_path: Path, origin: Path, content: bytes | None
) -> None:
    """A failed download, and a proxy's page in place of the file: one line, and no raw file."""
    good = origin.read_bytes()
    if content is None:
        origin.unlink()
    else:
        origin.write_bytes(content)
    with pytest.raises(DataError, match="pyg:Amazon/Photo: PyG") as raised:
        load(tmp_path, download=True)
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "home").rglob("*.npz"))
    origin.write_bytes(good)
    assert load(tmp_path, download=True).num_nodes == NUM_NODES


def write_tu(raw: Path, name: str, count: int = 10) -> Path:
    """Pairs of nodes with labels; edge labels and attributes are not read."""
    raw.mkdir(parents=True)
    edges = [f"{2 * g + i},{2 * g + 3 - i}\n" for g in range(count) for i in (1, 2)]
    texts = {
        "A": "".join(edges),
        "graph_indicator": "".join(f"{g + 1}\n" * 2 for g in range(count)),
        "graph_labels": "".join(f"{g % 2 + 1}\n" for g in range(count)),
        "node_labels": "0\n1\n" * count,
    }
    for part, text in texts.items():
        (raw / f"{name}_{part}.txt").write_text(text)
    return raw


def test_sets_of_the_tu_collection(tmp_path: Path) -> None:
    """Read as the known ones are; every text file is recorded."""
    raw = write_tu(tmp_path / "user" / "TUDataset" / "PAIRS" / "raw", "PAIRS")
    places = Places(folders=(tmp_path / "user",), home=tmp_path / "home", sources=())
    source = find("pyg:TUDataset/PAIRS", places)
    assert source.of_graphs
    assert len(PYG.files(source)) == 4
    graphs = load_graph_set(source)
    assert graphs.name == "pyg-tudataset-pairs"
    assert graphs.origin == "PyG TUDataset/PAIRS, 80/20 split with seed 42"
    assert graphs.graphs.x.tolist() == [[1, 0], [0, 1]] * 10
    assert graphs.graphs.y.tolist() == [0, 1] * 5
    (raw / "PAIRS_node_labels.txt").write_text("0\n0\n" * 10)
    with pytest.raises(DataError, match=r"not the files that .* was first used with"):
        load_graph_set(source)


def mnist(*, y: torch.Tensor | None = None) -> list[list[dict[str, torch.Tensor]]]:
    """What `GNNBenchmarkDataset` stores for MNIST: three lists of graphs."""
    edge_index = torch.tensor([[0, 1], [1, 0]])
    return [
        [
            {
                "x": torch.full((2, 3), float(part)),
                "edge_index": edge_index,
                "y": torch.tensor([index % 2]) if y is None else y,
            }
            for index in range(size)
        ]
        for part, size in enumerate((8, 4, 6))
    ]


def test_a_class_with_parts_has_its_own_split(tmp_path: Path) -> None:
    """Its three parts are read from the same files."""
    raw = tmp_path / "user" / "GNNBenchmarkDataset" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    torch.save(mnist(), raw / "MNIST_v2.pt")
    graphs = load(tmp_path, "GNNBenchmarkDataset/MNIST")
    assert graphs.own_split
    assert (graphs.train.numel(), graphs.val.numel(), graphs.test.numel()) == (8, 4, 6)
    assert graphs.graphs.x[graphs.graphs.ptr[graphs.val]].eq(1).all()
    assert [path.name for path in (tmp_path / "user").rglob("*")][-1] == "MNIST_v2.pt"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Planetoyd/Cora", "no dataset 'Planetoyd'.*did you mean Planetoid"),
        ("amazon/Photo", "did you mean Amazon"),
        ("Data", "no dataset 'Data'"),
        ("Amazon", "needs a name: write pyg:Amazon/NAME"),
        ("WikiCS/x", "takes no name: write pyg:WikiCS"),
        ("Amazon/Books", "cannot be made with name='Books'"),
        ("MixHopSyntheticDataset", "needs homophily: write a function"),
        ("FakeDataset", "takes no root directory"),
    ],
)
def test_class_that_cannot_be_made(tmp_path: Path, spec: str, message: str) -> None:
    """The usage error says what to write instead."""
    with pytest.raises(UsageError, match=message) as raised:
        load(tmp_path, spec, download=True)
    assert f"pyg:{spec}" in str(raised.value)
