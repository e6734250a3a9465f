"""Sets of graphs for graph classification, from the text files of the TUDataset collection."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor
from torch_geometric.datasets import TUDataset

from grb_check.datasets.given_edges import EdgeAttribute
from grb_check.datasets.graph_dataset import GraphSet
from grb_check.datasets.published import sizes
from grb_check.datasets.reading.adjacency import matrix_of_pairs, undirected_edges
from grb_check.datasets.reading.pyg_raw import Recipe, fetch_raw, home_root
from grb_check.datasets.reading.text_table import read_table
from grb_check.datasets.set_assembly import RawGraphs, graph_set_of
from grb_check.datasets.source import DataNotice
from grb_check.errors import DataError, count, one_line

IntArray = NDArray[np.int64]

LARGEST: Final = 128 << 20  # bytes of text; the longest file, DD_A.txt, has 24 MiB
MOST_LABELS: Final = 1_000
# The first that is there is used.
NODE_PARTS: Final = ("node_labels", "node_attributes")
EDGE_PARTS: Final = ("edge_labels", "edge_attributes")


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


def read_graph_set(name: str, path: Path) -> GraphSet:
    """Read a known set. Features are the node labels, as with PyG's `TUDataset`; no edge labels.

    Sets and shares of the split are those of Guerranti et al., "On the Adversarial Robustness of
    Graph Contrastive Learning Methods" (GLFrontiers 2023).

    Args:
        name: a known set of graphs.
        path: a directory or zip archive of the collection's text files.

    Raises:
        DataError: a part is missing, damaged, cut off, or contradicts another.

    Warns:
        DataNotice: the counts differ from the published ones.
    """
    graph_set = read_tu_files(name, name.upper(), path, node_parts=("node_labels",), edge_parts=())
    result = {
        "graphs": graph_set.num_graphs,
        "nodes": graph_set.graphs.x.shape[0],
        "edges": graph_set.graphs.edge_index.shape[1] // 2,
    }
    _compare(name, result, path)
    return graph_set


def read_tu_files(
    name: str,
    prefix: str,
    path: Path,
    *,
    origin: str = "",
    node_parts: Sequence[str] = (),
    edge_parts: Sequence[str] = EDGE_PARTS,
) -> GraphSet:
    """Read the text files of a set, and split it, see `set_assembly.drawn_split`.

    Features are the node labels, one-hot; without them the node attributes; without those a
    constant. Attributes of edges are the edge labels, one-hot, else the edge attributes. Where
    there are labels, attributes are left out, as PyG's `TUDataset` does by default. Only text files
    with the expected base names are read from an archive, in memory.

    Args:
        name: as in case ids.
        prefix: of the names of the files: `PREFIX_A.txt` and so on.
        path: a directory or zip archive of them.
        origin: where the data came from, for reports; the place if it is empty.
        node_parts: parts that must be there; without any, those that are there are read.
        edge_parts: parts that are read if they are there.

    Raises:
        DataError: a part is missing, damaged, cut off, or contradicts another; the graphs have real
            targets in place of classes.

    Warns:
        DataNotice: see `set_assembly.graph_set_of`.
    """
    where = str(path)
    entries = _table(path, prefix, "A", 2)
    batch = _table(path, prefix, "graph_indicator", 1).ravel() - 1
    labels = _graph_labels(path, prefix)
    _check_batch(batch, labels.size, where)
    _check_edges(entries - 1, batch, where)
    features = None
    parts = node_parts or [part for part in NODE_PARTS if _has(path, f"{prefix}_{part}.txt")]
    if parts:
        features = _rows(path, prefix, parts[0], batch.size)
    of_edges = [part for part in edge_parts if _has(path, f"{prefix}_{part}.txt")]
    _, y = np.unique(labels, return_inverse=True)
    pairs = entries.T - 1
    edges = undirected_edges(matrix_of_pairs(pairs, batch.size, where), where, what="graphs have")
    attributes: dict[EdgeAttribute, Tensor] = {}
    if of_edges:
        values = _rows(path, prefix, of_edges[0], len(entries))
        attributes["edge_attr"] = _of_edges(edges, pairs, values, batch.size, where)
    raw = RawGraphs(
        sizes=np.bincount(batch),
        pairs=edges,
        labels=y.astype(np.int64),
        features=features,
        attributes=attributes,
    )
    origin = origin or f"TUDataset text files in {path}"
    return graph_set_of(raw, name=name, origin=origin, where=where)


def _of_edges(
    edges: IntArray, pairs: IntArray, values: NDArray[Any], num_nodes: int, where: str
) -> Tensor:
    """Return the attributes of edges float32 [2 * num_edges, k]; of duplicates the first counts.

    Args:
        edges: int64 [2, 2 * num_edges], as the set has them.
        pairs: int64 [2, entries], as the file has them, with all of these edges.
        values: real [entries, k].
        num_nodes: number of nodes.
        where: directory or archive, for messages.

    Raises:
        DataError: a value is not finite.
    """
    if not np.isfinite(values).all():
        raise DataError(f"{where}: edge_attr has NaN or infinite values")
    codes, first = np.unique(pairs[0] * num_nodes + pairs[1], return_index=True)
    positions = np.searchsorted(codes, edges[0] * num_nodes + edges[1])
    return torch.from_numpy(values[first[positions]].astype(np.float32))


def _table(
    path: Path, prefix: str, part: str, columns: int | None, kind: DTypeLike = np.int64
) -> NDArray[Any]:
    file = f"{prefix}_{part}.txt"
    with _opened(path, file) as stream:
        return read_table(stream, kind, columns, f"{path}: {file}", largest=LARGEST)


def _graph_labels(path: Path, prefix: str) -> IntArray:
    """Return int64 [num_graphs].

    Raises:
        DataError: they are real numbers, or there are several for each graph.
    """
    if not _has(path, f"{prefix}_graph_labels.txt") and _has(
        path, f"{prefix}_graph_attributes.txt"
    ):
        raise DataError(
            f"{path}: has {prefix}_graph_attributes.txt, real targets as for regression, but no "
            f"{prefix}_graph_labels.txt; an accuracy needs one class for each graph"
        )
    values = _table(path, prefix, "graph_labels", 1, np.float64).ravel()
    if not (np.isfinite(values) & (values == np.round(values))).all():
        raise DataError(
            f"{path}: {prefix}_graph_labels.txt has real numbers, as for regression; an accuracy "
            f"needs classes, which are integers"
        )
    return values.astype(np.int64)


def _rows(path: Path, prefix: str, part: str, number: int) -> NDArray[Any]:
    """Return real [number, width]: one-hot labels or attributes of nodes or edges."""
    thing, what = part.partition("_")[0], part.replace("_", " ")
    is_label = part.endswith("labels")
    values = _table(path, prefix, part, None, np.int64 if is_label else np.float32)
    if values.shape[0] != number:
        rows = what if is_label else f"rows of {what}"
        raise DataError(f"{path}: {count(number, thing)}, but {values.shape[0]} {rows}")
    if not is_label:
        return values
    columns = [_one_hot(column, f"{path}: {what}") for column in values.T]
    return np.concatenate(columns, axis=1)


def _has(path: Path, name: str) -> bool:
    """Return whether a directory or an archive has a text file."""
    if path.is_dir():
        return (path / name).is_file()
    try:
        with zipfile.ZipFile(path) as archive:
            return any(member.split("/")[-1] == name for member in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False  # whoever reads it says why


@contextmanager
def _opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a text file of a directory or an archive."""
    try:
        if path.is_dir():
            with open(path / name, "rb") as stream:
                yield stream
            return
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.namelist() if member.split("/")[-1] == name]
            if len(members) != 1:
                raise DataError(f"{path}: has {count(len(members), 'file')} {name}, expected one")
            with archive.open(members[0]) as member:
                yield member  # type: ignore[misc]
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        reason = one_line(error)
        raise DataError(f"{path}: {name} cannot be read: {reason}") from error


def _check_batch(batch: IntArray, num_graphs: int, where: str) -> None:
    steps = np.diff(batch)
    if batch[0] != 0 or ((steps != 0) & (steps != 1)).any():
        raise DataError(f"{where}: graph_indicator does not rise from 1 by steps of 1")
    if batch[-1] + 1 != num_graphs:
        raise DataError(
            f"{where}: nodes of {count(batch[-1] + 1, 'graph')}, but labels of {num_graphs}"
        )


def _check_edges(entries: IntArray, batch: IntArray, where: str) -> None:
    """Check that entries int64 [., 2] lead within graphs, and both ways, self-loops aside."""
    num_nodes = batch.size
    if entries.min() < 0 or entries.max() >= num_nodes:
        outside = int(entries.min()) if entries.min() < 0 else int(entries.max())
        raise DataError(f"{where}: an edge names node {outside + 1}; there are 1 .. {num_nodes}")
    row, column = entries.T
    if (batch[row] != batch[column]).any():
        raise DataError(f"{where}: an edge leads from one graph to another")
    forward = np.unique(row * num_nodes + column)
    backward = np.unique(column * num_nodes + row)
    if not np.array_equal(forward, backward):
        single = np.setdiff1d(forward, backward, assume_unique=True).size
        raise DataError(
            f"{where}: {count(single, 'edge')} listed in one direction only; is the file cut off?"
        )


def _one_hot(labels: IntArray, where: str) -> NDArray[np.float32]:
    classes = labels - labels.min()
    width = int(classes.max()) + 1
    if width > labels.size or width > MOST_LABELS:
        raise DataError(f"{where} run from {labels.min()} to {labels.max()}")
    features = np.zeros((labels.size, width), dtype=np.float32)
    features[np.arange(labels.size), classes] = 1
    return features


def _compare(name: str, actual: Mapping[str, int], path: Path) -> None:
    row = sizes()[name]
    differing = [
        f"{figure}: expected {row[figure]:,}, found {number:,}"
        for figure, number in actual.items()
        if number != row[figure]
    ]
    if differing:
        msg = f"{path}: not the published figures of {name}: {'; '.join(differing)}"
        warnings.warn(msg, DataNotice, stacklevel=2)
