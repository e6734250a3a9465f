"""Sets of graphs for graph classification, from the text files of the TUDataset collection."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset

from grb_check.datasets.graph_dataset import SEED, GraphSet
from grb_check.datasets.published import sizes
from grb_check.datasets.reading.pyg_raw import Recipe, fetch_raw, home_root
from grb_check.datasets.reading.text_table import read_table
from grb_check.datasets.source import DataNotice
from grb_check.errors import DataError, count, one_line

IntArray = NDArray[np.int64]

LARGEST: Final = 128 << 20  # bytes of text; the longest file, DD_A.txt, has 24 MiB
MOST_LABELS: Final = 1_000
TRAIN_SHARE: Final = 0.8
PARTS: Final = {"A": 2, "graph_indicator": 1, "graph_labels": 1, "node_labels": 1}


def fetch_graph_set(name: str, home: Path) -> Path:
    """Download the text files of a set with PyG's `TUDataset`; return their directory.

    Raises:
        DataError: the download failed, or is not a set of graphs.
    """
    raw = Path(name.upper(), "raw")
    recipe = Recipe(
        kind=TUDataset, arguments={"name": name.upper()}, spec=f"TUDataset/{name.upper()}"
    )
    fetch_raw(recipe, home, lambda root: read_graph_set(name, root / raw))
    return home_root(recipe, home) / raw


def read_graph_set(name: str, place: Path) -> GraphSet:
    """Read a set and split it at random into 80 % and 20 % with seed 42.

    Sets and shares after Guerranti et al., "On the Adversarial Robustness of Graph Contrastive
    Learning Methods" (GLFrontiers 2023); the seed is ours. Features are the node labels; the
    real-valued attribute of PROTEINS is left out, as PyG's `TUDataset` does by default. Only text
    files with the expected base names are read from an archive, in memory.

    Args:
        name: a known set of graphs.
        place: a directory or zip archive of the collection's text files.

    Raises:
        DataError: a part is missing, damaged, cut off, or contradicts another.

    Warns:
        DataNotice: the counts differ from the published ones.
    """
    tables: dict[str, IntArray] = {}
    for part, columns in PARTS.items():
        file = f"{name.upper()}_{part}.txt"
        with _opened(place, file) as stream:
            where = f"{place}: {file}"
            tables[part] = read_table(stream, np.int64, columns, where, largest=LARGEST)
            if part != "A":
                tables[part] = tables[part].ravel()
    batch = _batch(tables, str(place))
    edges = _edges(tables["A"] - 1, batch, str(place))
    _, y = np.unique(tables["graph_labels"], return_inverse=True)
    num_classes = int(y.max()) + 1
    if num_classes < 2:
        raise DataError(f"{place}: all graphs have the same class")
    _compare(name, {"graphs": y.size, "nodes": batch.size, "edges": edges.shape[1] // 2}, place)
    graphs = Data(
        x=torch.from_numpy(_one_hot(tables["node_labels"], str(place))),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(y.astype(np.int64)),
        batch=torch.from_numpy(batch),
        ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(batch))])),
    )
    train, test = _split(y.size)
    return GraphSet(
        name=name,
        graphs=graphs,
        train=torch.from_numpy(train),
        test=torch.from_numpy(test),
        num_classes=num_classes,
        origin=f"TUDataset text files in {place}, 80/20 split with seed {SEED}",
    )


@contextmanager
def _opened(place: Path, name: str) -> Iterator[BinaryIO]:
    """Open a text file of a directory or an archive."""
    try:
        if place.is_dir():
            with open(place / name, "rb") as stream:
                yield stream
            return
        with zipfile.ZipFile(place) as archive:
            members = [each for each in archive.namelist() if each.split("/")[-1] == name]
            if len(members) != 1:
                raise DataError(f"{place}: has {count(len(members), 'file')} {name}, expected one")
            with archive.open(members[0]) as member:
                yield member  # type: ignore[misc]
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        reason = one_line(error)
        raise DataError(f"{place}: {name} cannot be read: {reason}") from error


def _batch(tables: Mapping[str, IntArray], where: str) -> IntArray:
    """Return the graph of each node, from 0."""
    batch = tables["graph_indicator"] - 1
    num_graphs = tables["graph_labels"].size
    steps = np.diff(batch)
    if batch[0] != 0 or ((steps != 0) & (steps != 1)).any():
        raise DataError(f"{where}: graph_indicator does not rise from 1 by steps of 1")
    if batch[-1] + 1 != num_graphs:
        raise DataError(
            f"{where}: nodes of {count(batch[-1] + 1, 'graph')}, but labels of {num_graphs}"
        )
    labelled = tables["node_labels"].size
    if labelled != batch.size:
        raise DataError(f"{where}: {count(batch.size, 'node')}, but {labelled} node labels")
    return batch


def _edges(entries: IntArray, batch: IntArray, where: str) -> IntArray:
    """Return int64 [2, e], sorted, without self-loops and duplicates, from entries int64 [., 2]."""
    num_nodes = batch.size
    if entries.min() < 0 or entries.max() >= num_nodes:
        outside = int(entries.min()) if entries.min() < 0 else int(entries.max())
        raise DataError(f"{where}: an edge names node {outside + 1}; there are 1 .. {num_nodes}")
    row, column = entries.T
    if (batch[row] != batch[column]).any():
        raise DataError(f"{where}: an edge leads from one graph to another")
    row, column = row[row != column], column[row != column]
    forward = np.unique(row * num_nodes + column)
    backward = np.unique(column * num_nodes + row)
    if not np.array_equal(forward, backward):
        single = np.setdiff1d(forward, backward, assume_unique=True).size
        raise DataError(
            f"{where}: {count(single, 'edge')} listed in one direction only; is the file cut off?"
        )
    if not forward.size:
        raise DataError(f"{where}: the graphs have no edges")
    return np.stack(np.divmod(forward, num_nodes))


def _one_hot(labels: IntArray, where: str) -> NDArray[np.float32]:
    classes = labels - labels.min()
    width = int(classes.max()) + 1
    if width > labels.size or width > MOST_LABELS:
        raise DataError(f"{where}: node labels run from {labels.min()} to {labels.max()}")
    features = np.zeros((labels.size, width), dtype=np.float32)
    features[np.arange(labels.size), classes] = 1
    return features


def _split(num_graphs: int) -> tuple[IntArray, IntArray]:
    order = np.random.default_rng(SEED).permutation(num_graphs)
    cut = int(TRAIN_SHARE * num_graphs)
    if not 0 < cut < num_graphs:
        raise DataError(f"a set of {count(num_graphs, 'graph')} is too small to be split")
    return np.sort(order[:cut]), np.sort(order[cut:])


def _compare(name: str, found: Mapping[str, int], place: Path) -> None:
    row = sizes()[name]
    differing = [
        f"{figure}: expected {row[figure]:,}, found {number:,}"
        for figure, number in found.items()
        if number != row[figure]
    ]
    if differing:
        msg = f"{place}: not the published figures of {name}: {'; '.join(differing)}"
        warnings.warn(msg, DataNotice, stacklevel=2)
