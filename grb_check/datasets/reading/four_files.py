"""GRB's four-file format: adj.npz, features.npz, labels.npz, index.npz."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grb_check.datasets.assembly import assemble, check_features, check_labels, class_numbers
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.adjacency import num_nodes_of, read_matrix, undirected_edges
from grb_check.datasets.reading.npz import array_of, integers, read_npz
from grb_check.datasets.splits import Split
from grb_check.datasets.unlabelled import NO_CLASS, labelled_nodes
from grb_check.errors import DataError, count

_MATRIX: Final = ("format", "shape", "data", "indptr", "indices", "row", "col")
_PARTS: Final = {
    "train": "index_train",
    "val": "index_val",
    "easy": "index_test_easy",
    "medium": "index_test_medium",
    "hard": "index_test_hard",
}


def load_folder(name: str, folder: Path, *, origin: str) -> Dataset:
    """Read a directory in GRB's four-file format and check everything in it.

    `adj.npz` is a sparse matrix as scipy saves it; `features.npz` and `labels.npz` (class numbers
    or one-hot rows) have the key `data`; `index.npz` has `index_train`, `index_val`,
    `index_test_easy`, `..._medium`, `..._hard`, and may have their union `index_test`. Features are
    raw on disk and come out normalised. Pickled arrays are refused.

    Args:
        name: as in case ids.
        folder: holds the four files.
        origin: where the data came from, for reports.

    Raises:
        DataError: a file is missing, damaged or contradicts another; the message names it.

    Warns:
        DataNotice: the adjacency matrix was repaired, or a class has no node.
    """
    adj, features, labels, index = (
        folder / f"{part}.npz" for part in ("adj", "features", "labels", "index")
    )
    matrix = read_npz(adj, _MATRIX)
    num_nodes = num_nodes_of(matrix, str(adj))
    labelled = read_npz(labels, {"data"})
    classes = class_numbers(array_of(labelled, "data", str(labels)), f"{labels}: data")
    known = labelled_nodes(classes, str(labels))
    num_classes = check_labels(classes, num_nodes, str(labels))
    split = read_split(read_npz(index, {*_PARTS.values(), "index_test"}), num_nodes, str(index))
    if not known[np.concatenate([split.train, split.val, split.full])].all():
        raise DataError(f"{labels}: a node of the split in {index} has no class, but {NO_CLASS}")
    edges = undirected_edges(read_matrix(matrix, str(adj)), str(adj))
    del matrix  # before the largest file is read
    raw = array_of(read_npz(features, {"data"}), "data", str(features))
    return assemble(
        name=name,
        origin=origin,
        features=check_features(raw, num_nodes, str(features)),
        edges=edges,
        labels=classes,
        num_classes=num_classes,
        split=split,
        given_dtype=str(raw.dtype),
    )


def read_split(arrays: dict[str, NDArray[Any]], num_nodes: int, where: str) -> Split:
    """Return the split of `index.npz`: non-empty disjoint parts, which need not cover all nodes.

    Raises:
        DataError: a part is missing, empty, out of range, has duplicates or shares nodes with
            another, or `index_test` is not the union of the three levels.
    """
    parts = {
        part: _node_ids(array_of(arrays, key, where), num_nodes, f"{where}: {key}")
        for part, key in _PARTS.items()
    }
    for one, other in combinations(parts, 2):
        shared = np.intersect1d(parts[one], parts[other], assume_unique=True)
        if shared.size:
            msg = (
                f"{where}: {_PARTS[one]} and {_PARTS[other]} share {count(shared.size, 'node')}, "
                f"the first is {shared[0]}"
            )
            raise DataError(msg)
    full = np.sort(np.concatenate([parts["easy"], parts["medium"], parts["hard"]]))
    if "index_test" in arrays:
        given = _node_ids(arrays["index_test"], num_nodes, f"{where}: index_test")
        if not np.array_equal(given, full):
            msg = (
                f"{where}: index_test ({count(given.size, 'node')}) is not the union of "
                f"its three levels ({count(full.size, 'node')})"
            )
            raise DataError(msg)
    return Split(full=full, **parts)


def _node_ids(array: NDArray[Any], num_nodes: int, where: str) -> NDArray[np.int64]:
    nodes = np.sort(integers(array, where))
    if not nodes.size:
        raise DataError(f"{where} is empty")
    if nodes[0] < 0 or nodes[-1] >= num_nodes:
        outside = nodes[0] if nodes[0] < 0 else nodes[-1]
        raise DataError(f"{where}: node {outside} lies outside 0 .. {num_nodes - 1}")
    repeated = nodes[1:][nodes[1:] == nodes[:-1]]
    if repeated.size:
        raise DataError(f"{where}: {repeated.size} duplicates, the first is node {repeated[0]}")
    return nodes
