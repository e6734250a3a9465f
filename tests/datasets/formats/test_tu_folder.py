"""Any set of graphs in TUDataset's layout: where it may lie, and what its nodes have."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from grb_check.datasets import DataNotice, Places, Source, find, load_graph_set
from grb_check.datasets.lock import recorded
from grb_check.errors import DataError, UsageError

NUM_GRAPHS = 12


def texts(**changes: str | None) -> dict[str, str]:
    """Paths of 3 nodes; graphs of the classes 3 and 7."""
    pairs = [(3 * g + i, 3 * g + j) for g in range(NUM_GRAPHS) for i, j in ((1, 2), (2, 3))]
    parts: dict[str, str | None] = {
        "A": "".join(f"{i}, {j}\n{j}, {i}\n" for i, j in pairs),
        "graph_indicator": "".join(f"{node // 3 + 1}\n" for node in range(3 * NUM_GRAPHS)),
        "graph_labels": "7\n3\n" * (NUM_GRAPHS // 2),
        "node_attributes": "0.5, -1\n1.5, 2\n0, 0\n" * NUM_GRAPHS,
        **changes,
    }
    return {key: text for key, text in parts.items() if text is not None}


def write(folder: Path, name: str = "PATHS", **changes: str | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in texts(**changes).items():
        (folder / f"{name}_{part}.txt").write_text(text)
    return folder


def zipped(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for part, text in texts().items():
            archive.writestr(f"PATHS/PATHS_{part}.txt", text)
    return path


def found(tmp_path: Path, spec: str, *folders: Path) -> Source:
    return find(spec, Places(folders=folders, home=tmp_path / "home", sources=()))


def load(tmp_path: Path, **changes: str | None) -> Any:
    return load_graph_set(found(tmp_path, str(write(tmp_path / "set", **changes))))


@pytest.mark.parametrize(
    ("place", "spec"),
    [
        ("set", "./set"),
        ("set/raw", "./set"),
        ("set/raw", "./set/raw"),
        ("data/PATHS", "PATHS"),
        ("data/PATHS/raw", "PATHS"),
        ("data/tu/PATHS/raw", "PATHS"),
        ("set.zip", "./set.zip"),
    ],
)
def test_a_set_is_known_by_the_names_of_its_files(
    tmp_path: Path, place: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the name that its files begin with; nothing has to be read to see that it is a set."""
    (zipped if place.endswith(".zip") else write)(tmp_path / place)
    monkeypatch.chdir(tmp_path)
    source = found(tmp_path, spec, tmp_path / "data")
    assert (source.name, source.of_graphs) == ("PATHS", True)
    graphs = load_graph_set(source)
    assert graphs.num_graphs == NUM_GRAPHS
    assert graphs.graphs.y.tolist() == [1, 0] * (NUM_GRAPHS // 2)
    assert found(tmp_path, f"mine={tmp_path / place}").name == "mine"


def test_the_files_of_the_first_use_are_recorded(tmp_path: Path) -> None:
    """All that begin with its name."""
    source = found(tmp_path, str(write(tmp_path / "set")))
    load_graph_set(source)
    files = recorded(source.lock_key, tmp_path / "home")
    assert files is not None
    assert files.keys() == {f"PATHS_{part}.txt" for part in texts()}
    with pytest.raises(DataError, match="not the files that"):
        load(tmp_path, node_labels="0\n1\n0\n" * NUM_GRAPHS)


def test_a_known_set_is_read_by_its_name_and_by_its_directory(tmp_path: Path) -> None:
    """In any order: by its name fewer of its files are read, and recorded."""
    labels = "0\n1\n0\n" * NUM_GRAPHS
    edges = "0\n" * 4 * NUM_GRAPHS
    raw = write(tmp_path / "MUTAG" / "raw", "MUTAG", node_labels=labels, edge_labels=edges)
    for spec in (str(raw), "mutag", str(raw)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataNotice)  # not the published sizes
            assert load_graph_set(found(tmp_path, spec, tmp_path)).num_graphs == NUM_GRAPHS


def test_node_attributes_are_features_where_there_are_no_labels(tmp_path: Path) -> None:
    """Of both the labels are used, as PyG does by default."""
    graphs = load(tmp_path / "a")
    assert graphs.graphs.x[:3].equal(torch.tensor([[0.5, -1], [1.5, 2], [0, 0]]))
    graphs = load(tmp_path / "b", node_labels="0, 2\n1, 2\n0, 4\n" * NUM_GRAPHS)
    assert graphs.graphs.x[:3].tolist() == [[1, 0, 1, 0, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_without_both_the_features_are_constant(tmp_path: Path) -> None:
    """And it is said."""
    with pytest.warns(DataNotice, match="the nodes have no features; models get the constant 1"):
        graphs = load(tmp_path, node_attributes=None)
    assert graphs.graphs.x.equal(torch.ones(3 * NUM_GRAPHS, 1))


def test_edges_have_their_labels_or_attributes(tmp_path: Path) -> None:
    """One for each line of the edges, as they are listed."""
    assert "edge_attr" not in load(tmp_path / "none").graphs
    labels = load(tmp_path / "a", edge_labels="0\n0\n2\n2\n" * NUM_GRAPHS).graphs
    assert labels.edge_attr[:4].tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]
    values = load(tmp_path / "b", edge_attributes="0.5\n0.25\n3\n4\n" * NUM_GRAPHS).graphs
    assert values.edge_index[:, :4].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert values.edge_attr[:4].tolist() == [[0.5], [0.25], [3], [4]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph_labels": "0.5\n1.5\n" * 6}, "real numbers, as for regression"),
        ({"graph_labels": "1,2\n" * 12}, "2 numbers per line; expected 1"),
        (
            {"graph_labels": None, "graph_attributes": "0.5\n" * 12},
            "graph_attributes.txt, real targets as for regression, but no PATHS_graph_labels",
        ),
        ({"graph_labels": None}, "PATHS_graph_labels.txt cannot be read"),
        ({"node_attributes": "1\n2\n"}, "36 nodes, but 2 rows of node attributes"),
        ({"edge_labels": "1\n2\n"}, "48 edges, but 2 edge labels"),
        ({"node_attributes": "nan\n" * 36}, "NaN or infinite"),
        ({"graph_labels": "1\n" * 12}, "same class"),
    ],
)
def test_faults_are_named(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    """In one line."""
    with pytest.raises(DataError, match=message) as raised:
        load(tmp_path, **changes)
    assert "\n" not in str(raised.value)


def test_a_set_that_cannot_be_found(tmp_path: Path) -> None:
    """One file missing, or two sets in one directory."""
    with pytest.raises(UsageError, match=r"lacks PATHS_A\.txt; give the path of"):
        found(tmp_path, str(write(tmp_path / "set", A=None)))
    write(tmp_path / "both")
    write(tmp_path / "both", "OTHERS")
    with pytest.raises(UsageError, match="several sets: OTHERS, PATHS; give a directory of one"):
        found(tmp_path, str(tmp_path / "both"))
    with pytest.raises(UsageError):
        found(tmp_path, "PATHS", tmp_path / "empty")
