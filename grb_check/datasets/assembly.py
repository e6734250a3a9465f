"""From checked arrays to a `Dataset`: what four-file folders and Planetoid files share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.normalisation import normalise
from grb_check.datasets.notice import DataNotice
from grb_check.datasets.splits import Split
from grb_check.errors import DataError

IntArray = NDArray[np.int64]


def check_features(features: NDArray[Any], num_nodes: int, where: str) -> NDArray[np.float32]:
    """Raw features as float32 [num_nodes, num_features].

    Raises:
        DataError: wrong dtype or shape, or a value that is not finite as float32.
    """
    if features.ndim != 2 or features.dtype.kind not in "biuf" or not features.shape[1]:
        shape = "x".join(map(str, features.shape)) or "scalar"
        msg = f"{where}: must be real numbers [nodes, features], not {features.dtype} [{shape}]"
        raise DataError(msg)
    if features.shape[0] != num_nodes:
        msg = f"{where}: {features.shape[0]} rows, but the adjacency matrix has {num_nodes} nodes"
        raise DataError(msg)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is reported below
        values = features.astype(np.float32)
    bad = ~np.isfinite(values)
    if bad.any():
        rows = np.flatnonzero(bad.any(axis=1))
        msg = (
            f"{where}: {int(bad.sum())} values in {rows.size} rows are NaN or infinite as float32, "
            f"the first in row {int(rows[0])}"
        )
        raise DataError(msg)
    return values


def check_labels(labels: IntArray, num_nodes: int, where: str) -> int:
    """The number of classes of int64 [num_nodes] labels.

    Raises:
        DataError: wrong length, a negative label, one class only, or a label that is at least the
            number of nodes.

    Warns:
        DataNotice: a class between 0 and the highest has no node.
    """
    if labels.size != num_nodes:
        msg = f"{where}: {labels.size} labels, but the adjacency matrix has {num_nodes} nodes"
        raise DataError(msg)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_nodes:
        msg = f"{where}: labels run from {low} to {high}; allowed are 0 .. {num_nodes - 1}"
        raise DataError(msg)
    if high == 0:
        raise DataError(f"{where}: all labels are 0; classification needs two classes at least")
    empty = np.flatnonzero(np.bincount(labels) == 0)
    if empty.size:
        msg = f"{where}: {empty.size} classes of {high + 1} have no node, the first is {empty[0]}"
        warnings.warn(msg, DataNotice, stacklevel=2)
    return high + 1


def assemble(
    *,
    name: str,
    origin: str,
    features: NDArray[np.float32],
    edges: IntArray,
    labels: IntArray,
    num_classes: int,
    split: Split,
) -> Dataset:
    """The dataset of checked arrays, with normalised features.

    Args:
        name: as in case ids.
        origin: where the data came from.
        features: raw, float32 [num_nodes, num_features].
        edges: int64 [2, 2 * num_edges], both directions, sorted.
        labels: int64 [num_nodes].
        num_classes: number of classes.
        split: sorted node ids.
    """
    graph = Data(
        x=torch.from_numpy(normalise(features)[0]),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(labels),
    )
    levels = {"easy": split.easy, "medium": split.medium, "hard": split.hard, "full": split.full}
    return Dataset(
        name=name,
        graph=graph,
        train=torch.from_numpy(split.train),
        val=torch.from_numpy(split.val),
        test={level: torch.from_numpy(nodes) for level, nodes in levels.items()},
        num_classes=num_classes,
        origin=origin,
    )
