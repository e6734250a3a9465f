"""Sets of graphs from TUDataset's text files: directories, archives, truncated files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from torch_geometric.datasets import TUDataset

from grb_check.datasets import Places, find, load_graph_set
from grb_check.datasets.reading.tu_files import read_graph_set
from grb_check.errors import DataError, UsageError

NUM_GRAPHS = 10
notice = pytest.mark.filterwarnings("ignore::grb_check.datasets.DataNotice")


def texts(**changes: str | None) -> dict[str, str]:
    """Ten paths of 3 nodes; labels of nodes 2, 3 and 5, of graphs -1 and 1."""
    pairs = [(3 * g + i, 3 * g + j) for g in range(NUM_GRAPHS) for i, j in ((1, 2), (2, 3))]
    parts: dict[str, str | None] = {
        "A": "".join(f"{i}, {j}\n{j}, {i}\n" for i, j in pairs),
        "graph_indicator": "".join(f"{node // 3 + 1}\n" for node in range(3 * NUM_GRAPHS)),
        "graph_labels": "".join(f"{1 if g % 2 else -1}\n" for g in range(NUM_GRAPHS)),
        "node_labels": "2\n3\n5\n" * NUM_GRAPHS,
        "node_attributes": "not needed",
        **changes,
    }
    return {key: text for key, text in parts.items() if text is not None}


def write(folder: Path, **changes: str | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in texts(**changes).items():
        (folder / f"MUTAG_{part}.txt").write_text(text)
    return folder


def zipped(path: Path, inside: str = "MUTAG/") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in texts().items():
            archive.writestr(f"{inside}MUTAG_{part}.txt", text)
        archive.writestr(f"{inside}README.txt", "a set of graphs")
    return path


@notice
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": None}, r"MUTAG_A\.txt cannot be read"),
        ({"node_labels": None}, r"MUTAG_node_labels\.txt cannot be read"),
        ({"A": texts()["A"][:-7]}, "1 edge listed in one direction only"),
        ({"A": texts()["A"][:-3]}, "not a table of numbers"),
        ({"A": "1, 31\n31, 1\n"}, r"names node 31; there are 1 \.\. 30"),
        ({"A": "0, 1\n1, 0\n"}, "names node 0"),
        ({"A": "1, 4\n4, 1\n"}, "from one graph to another"),
        ({"A": "1, 1\n"}, "no edges"),
        ({"A": "1\n2\n"}, "1 number per line"),
        ({"A": ""}, r"A\.txt: is empty"),
        (
            {"graph_indicator": texts()["graph_indicator"][:-9]},
            "nodes of 9 graphs, but labels of 10",
        ),
        ({"graph_indicator": "1\n3\n"}, "by steps of 1"),
        ({"graph_indicator": "2\n3\n"}, "from 1"),
        ({"graph_labels": "1\n1\n"}, "nodes of 10 graphs, but labels of 2"),
        ({"graph_labels": "1\n" * 10}, "same class"),
        ({"graph_labels": "a\n" * 10}, "could not convert"),
        ({"node_labels": "1\n2\n"}, "30 nodes, but 2 node labels"),
        ({"node_labels": "0.5\n" * 30}, "could not convert"),
        ({"node_labels": "0\n" * 29 + "999999999\n"}, "node labels run from 0 to 999999999"),
    ],
)
def test_fault_is_a_data_error(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    """The message names the place, in one line."""
    path = write(tmp_path, **changes)
    with pytest.raises(DataError, match=message) as raised:
        read_graph_set("mutag", path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@notice
def test_damaged_archives(tmp_path: Path) -> None:
    """Cut off, bits flipped, a part missing or there twice: DataErrors that name the archive."""
    path = zipped(tmp_path / "MUTAG.zip")
    content = path.read_bytes()
    expected = read_graph_set("mutag", path).graphs.edge_index
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 60).tolist():
        path.write_bytes(content[:position])
        with pytest.raises(DataError, match=r"MUTAG\.zip"):
            read_graph_set("mutag", path)
        flipped = bytearray(content)
        flipped[position] ^= 0x55
        path.write_bytes(flipped)
        try:
            edge_index = read_graph_set("mutag", path).graphs.edge_index
        except DataError:
            continue
        assert expected.equal(edge_index)
    for count in (0, 2):
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(f"{number}/MUTAG_A.txt", texts()["A"])
        with pytest.raises(DataError, match=f"has {count} files MUTAG_A.txt"):
            read_graph_set("mutag", path)


def test_single_graph_is_not_a_set(tmp_path: Path) -> None:
    """The sets there are stand in the message."""
    with pytest.raises(UsageError, match="the sets of graphs are synthetic-molecules, mutag"):
        load_graph_set(find("synthetic-cora"))


@notice
def test_download_through_pyg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG's `TUDataset` downloads the archive into our directory; the second time needs no
    permission."""
    zipped(tmp_path / "origin" / "MUTAG.zip")
    monkeypatch.setattr(TUDataset, "url", f"file://{tmp_path}/origin")
    home = tmp_path / "home"
    first = load_graph_set(find("mutag", Places(home=home, download=True)))
    second = load_graph_set(find("mutag", Places(home=home)))
    assert first.graphs.x.equal(second.graphs.x)
    assert str(home / "pyg" / "TUDataset" / "MUTAG" / "raw") in second.origin
    assert first.origin == second.origin
