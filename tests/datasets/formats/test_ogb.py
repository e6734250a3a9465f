"""ogbn-arxiv's text files: counts, both splits, faults; the full size is read in seconds."""

from __future__ import annotations

import gzip
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sources import read_with

from grb_check.datasets.formats.ogb import OGB
from grb_check.datasets.source import DataNotice
from grb_check.errors import DataError

load_arxiv = partial(read_with, OGB, "ogbn-arxiv")

NUM_NODES = 30
EDGES = [(i, (i + 1) % NUM_NODES) for i in range(NUM_NODES)] + [(1, 0)]


def write(root: Path, **changes: bytes | None) -> Path:
    """A ring of citations, one of them mutual; 4 features, 3 classes, 20/5/5 nodes."""
    rng = np.random.default_rng(0)
    texts: dict[str, bytes | None] = {
        "edge": "".join(f"{i},{j}\n" for i, j in EDGES).encode(),
        "node_feat": "".join(
            ",".join(f"{v:.6f}" for v in row) + "\n" for row in rng.normal(size=(NUM_NODES, 4))
        ).encode(),
        "node_label": "".join(f"{i % 3}\n" for i in range(NUM_NODES)).encode(),
        "train": "".join(f"{i}\n" for i in range(20)).encode(),
        "valid": "".join(f"{i}\n" for i in range(20, 25)).encode(),
        "test": "".join(f"{i}\n" for i in range(25, 30)).encode(),
        **changes,
    }
    for key, text in texts.items():
        folder = root / ("raw" if key in ("edge", "node_feat", "node_label") else "split/time")
        folder.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path = folder / f"{key.replace('_', '-')}.csv.gz"
            path.write_bytes(gzip.compress(text))
    return root


def test_citations_become_edges_without_a_notice(tmp_path: Path) -> None:
    """31 citations, one mutual, are 30 edges; that they had a direction is not news."""
    folder = write(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        dataset = load_arxiv(folder)
    counts = (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)
    assert counts == (30, 30, 4, 3)
    assert dataset.name == "ogbn-arxiv"
    assert dataset.graph.y.tolist() == [i % 3 for i in range(NUM_NODES)]
    assert (dataset.train.numel(), dataset.test["full"].numel()) == (18, 9)


def test_given_split_is_the_one_by_time(tmp_path: Path) -> None:
    """Training, validation and test nodes are those of the files."""
    dataset = load_arxiv(write(tmp_path), split="given")
    assert dataset.train.tolist() == list(range(20))
    assert dataset.val.tolist() == list(range(20, 25))
    assert dataset.test["full"].tolist() == list(range(25, 30))


def test_split_files_are_needed_for_the_given_split_only(tmp_path: Path) -> None:
    """GRB's split does without them."""
    folder = write(tmp_path, train=None)
    assert load_arxiv(folder).num_nodes == NUM_NODES
    with pytest.raises(DataError, match=r"lacks split/time/train\.csv\.gz"):
        load_arxiv(folder, split="given")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge": None}, r"lacks raw/edge\.csv\.gz"),
        (
            {"edge": b"0,1\n1,30\n"},
            r"edge\.csv\.gz: 1 indices lie outside 0 .. 29, the first is 30",
        ),
        ({"edge": b"0,1\n1,-1\n"}, r"the first is -1"),
        ({"edge": b"0,1\n1\n"}, "columns changed"),
        ({"edge": b"0\n1\n"}, "1 number per line; expected 2"),
        ({"edge": b"src,dst\n0,1\n"}, "could not convert string 'src'"),
        ({"edge": b"0,1.5\n"}, "not a table of numbers"),
        ({"edge": b""}, "is empty"),
        ({"node_feat": b"0.1,nan\n" * 30}, "NaN or infinite"),
        ({"node_feat": b"0.1,,1\n" * 30}, "could not convert string ''"),
        ({"node_feat": b"0.1,0.2\n1,2\n" * 14}, "outside 0 .. 27, the first is 28"),
        ({"node_label": b"0\n1\n"}, "2 labels"),
        ({"test": b"25\n25\n26\n"}, "names a node twice"),
        ({"valid": b"30\n"}, r"valid\.csv\.gz: .*the first is 30"),
        ({"valid": b"3\n"}, "share 1 node;"),
    ],
)
def test_fault_is_a_data_error(
    tmp_path: Path, changes: dict[str, bytes | None], message: str
) -> None:
    """The message names the file and the fault, in one line."""
    folder = write(tmp_path, **changes)
    with pytest.raises(DataError, match=message) as raised:
        load_arxiv(folder, split="given")
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_truncated_archive_is_a_data_error(tmp_path: Path, kept: float) -> None:
    """gzip's own checks notice a file that was cut off."""
    path = write(tmp_path) / "raw" / "node-feat.csv.gz"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(DataError, match=r"node-feat\.csv\.gz"):
        load_arxiv(tmp_path)


@pytest.mark.slow
def test_full_size(tmp_path: Path) -> None:
    """169,343 nodes with 128 features and 1,166,243 citations are read, row by row."""
    num_nodes, num_citations = 169_343, 1_166_243
    rng = np.random.default_rng(0)
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = [",".join(f"{v:.6f}" for v in row) + "\n" for row in rng.normal(size=(1000, 128))]
    block, rest = ("".join(part).encode() for part in (rows, rows[: num_nodes % 1000]))
    members = gzip.compress(block, 1) * (num_nodes // 1000) + gzip.compress(rest, 1)
    (raw / "node-feat.csv.gz").write_bytes(members)
    ends = rng.integers(0, num_nodes, (num_citations, 2)).tolist()
    texts = {
        "edge": "".join(f"{i},{j}\n" for i, j in ends),
        "node-label": "".join(f"{i % 40}\n" for i in range(num_nodes)),
    }
    for name, text in texts.items():
        (raw / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), 1))
    with pytest.warns(DataNotice, match="self-loops dropped"):
        dataset = load_arxiv(tmp_path)
    counts = (dataset.num_nodes, dataset.num_features, dataset.num_classes)
    assert counts == (num_nodes, 128, 40)
    assert dataset.num_edges == len({(min(e), max(e)) for e in ends if e[0] != e[1]})
    assert dataset.graph.x[:1000].equal(dataset.graph.x[1000:2000])
