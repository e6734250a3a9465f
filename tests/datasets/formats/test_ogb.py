"""ogbn-arxiv's text files: counts, both splits, faults; the full size is read in seconds."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sources import read_with

from grb_check.datasets.formats.ogb import OGB
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


def test_given_split_is_the_one_by_time(tmp_path: Path) -> None:
    """Training, validation and test nodes are those of the files."""
    dataset = load_arxiv(write(tmp_path), split="given")
    assert dataset.train.tolist() == list(range(20))
    assert dataset.val.tolist() == list(range(20, 25))
    assert dataset.test["full"].tolist() == list(range(25, 30))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge": None}, r"lacks raw/edge\.csv\.gz"),
        (
            {"edge": b"0,1\n1,30\n"},
            r"edge\.csv\.gz: 1 index lies outside 0 .. 29, the first is 30",
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
