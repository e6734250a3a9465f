"""grb-flickr and grb-reddit, rebuilt from the public files of the graphs that GRB started from.

GRB takes both from CogDL, which distributes the graphs of GraphSAINT (Zeng et al., ICLR 2020). PyG
downloads the same files in its classes `Flickr` and `Reddit2`. PyG's `Reddit` is another graph:
it has 114,615,892 directed edges, while GRB publishes 11,606,919 undirected ones for grb-reddit,
half of the 23,213,838 of `Reddit2`.

CogDL standardises each feature with its mean and deviation over all nodes (scikit-learn's
`StandardScaler`). Standardising twice is the same as once, so it does not matter whether the files
are standardised already.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch_geometric.datasets import Flickr, Reddit2

from grb_check.datasets.assembly import check_features, dataset_of
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.adjacency import num_nodes_of, read_matrix
from grb_check.datasets.reading.npz import blocks, read_npz
from grb_check.datasets.reading.pyg_raw import Recipe, fetch_raw, home_root, raw_files
from grb_check.datasets.splits import Int64Array
from grb_check.errors import DataError, count, one_line

RECIPES: Final = {
    "grb-flickr": Recipe(kind=Flickr, arguments={}, spec="Flickr"),
    "grb-reddit": Recipe(kind=Reddit2, arguments={}, spec="Reddit2"),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class SaintArrays:
    """Arrays of a graph in GraphSAINT's files.

    Attributes:
        features: float32 [num_nodes, num_features], as in the file.
        adjacency: [num_nodes, num_nodes], stored entries as in the file.
        labels: int64 [num_nodes].
    """

    features: NDArray[np.float32]
    adjacency: sp.csr_array
    labels: Int64Array


def rebuild(name: str, raw: Path) -> Dataset:
    """Return grb-flickr or grb-reddit with GRB's features, split and normalisation.

    The caller compares the result with GRB's published figures.

    Args:
        name: `grb-flickr` or `grb-reddit`.
        raw: holds `adj_full.npz`, `feats.npy` and `class_map.json` of GraphSAINT.

    Raises:
        DataError: the files cannot be read, or contradict each other.
    """
    arrays = load_saint(raw)
    standardise(arrays.features)
    return dataset_of(
        name=name,
        origin=f"rebuilt from PyG's {RECIPES[name].spec}",
        where=str(raw),
        features=arrays.features,
        adjacency=arrays.adjacency,
        labels=arrays.labels,
        rebuilt=True,
    )


def fetch_upstream(name: str, home: Path) -> Path:
    """Download what `rebuild` reads (Flickr 0.2 GB, Reddit 0.8 GB) with PyG, once.

    PyG's own processing is skipped: for Reddit it needs several times the memory of the graph.

    Args:
        name: `grb-flickr` or `grb-reddit`.
        home: the data directory.

    Returns:
        `home/pyg/Flickr/raw` or `home/pyg/Reddit2/raw`.

    Raises:
        DataError: the download failed or cannot be read; nothing of it is kept.
    """
    recipe = RECIPES[name]
    fetch_raw(recipe, home, lambda root: load_saint(raw_files(recipe, root).folder))
    return raw_files(recipe, home_root(recipe, home)).folder


def load_saint(raw: Path) -> SaintArrays:
    """Read `adj_full.npz`, `feats.npy` and `class_map.json`; the split in `role.json` is not GRB's.

    Raises:
        DataError: a file cannot be read, holds pickled objects, or contradicts another.
    """
    features = _features(raw / "feats.npy")
    adjacency = read_npz(raw / "adj_full.npz")
    where = str(raw / "adj_full.npz")
    num_nodes = num_nodes_of(adjacency, where)
    check_features(features, num_nodes, str(raw / "feats.npy"))
    matrix = read_matrix({**adjacency, "format": np.array("csr")}, where)
    return SaintArrays(
        features=features,
        adjacency=matrix,
        labels=_labels(raw / "class_map.json", num_nodes),
    )


def standardise(features: NDArray[np.float32]) -> None:
    """Give each column, in place, mean 0 and population standard deviation 1 (CogDL, see above).

    Columns that are constant up to rounding, by the criterion of scikit-learn's `StandardScaler`,
    keep their scale. Sums are computed in float64, a block of rows at a time.

    Args:
        features: float32 [num_nodes, num_features], finite.
    """
    nodes = np.float64(features.shape[0])
    mean = sum(features[rows].sum(axis=0, dtype=np.float64) for rows in blocks(features)) / nodes
    squares = sum(np.square(features[rows] - mean).sum(axis=0) for rows in blocks(features))
    variance = np.asarray(squares / nodes)
    epsilon = np.finfo(np.float64).eps
    is_constant = variance <= nodes * epsilon * variance + np.square(nodes * mean * epsilon)
    scale = np.sqrt(np.where(is_constant, 1.0, variance))
    for rows in blocks(features):
        features[rows] = (features[rows] - mean) / scale


def _features(path: Path) -> NDArray[np.float32]:
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises nearly anything on damaged bytes
        raise _unreadable(path, "npy", error) from error
    if not isinstance(stored, np.ndarray) or stored.ndim != 2 or stored.dtype.kind not in "biuf":
        raise DataError(f"{path}: must be one matrix of real numbers [nodes, features]")
    features = np.empty(stored.shape, dtype=np.float32)
    with np.errstate(over="ignore"):  # too large values become infinite and are reported later
        for rows in blocks(features):
            features[rows] = stored[rows]
    return features


def _labels(path: Path, num_nodes: int) -> Int64Array:
    """Return the class of each node from a JSON object, node id -> class."""
    try:
        classes: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, "JSON", error) from error
    if not isinstance(classes, dict) or len(classes) != num_nodes:
        result = count(len(classes), "node") if isinstance(classes, dict) else "another type"
        raise DataError(
            f"{path}: must be an object with the class of each of {count(num_nodes, 'node')}, "
            f"has {result}"
        )
    try:
        labels = [classes[str(node)] for node in range(num_nodes)]
    except KeyError as error:
        raise DataError(f"{path}: has no class for node {error.args[0]}") from None
    bad = next((label for label in labels if type(label) is not int or abs(label) > num_nodes), 0)
    if bad:
        raise DataError(f"{path}: {str(bad)[:40]} is not a class number from 0")
    return np.array(labels, dtype=np.int64)


def _unreadable(path: Path, kind: str, error: Exception) -> DataError:
    reason = one_line(error)
    return DataError(f"{path}: not a readable {kind} file: {reason}")
