"""Any set of graphs in TUDataset's layout: where it may lie, and what its nodes have."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from grb_check.datasets import DataNotice, Places, Source, find, load_graph_set
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


def test_without_both_the_features_are_constant(tmp_path: Path) -> None:
    """And it is said."""
    with pytest.warns(DataNotice, match="the nodes have no features; models get the constant 1"):
        graphs = load(tmp_path, node_attributes=None)
    assert graphs.graphs.x.equal(torch.ones(3 * NUM_GRAPHS, 1))


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
