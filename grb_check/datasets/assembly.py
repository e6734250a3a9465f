"""Make a `Dataset` from arrays: checks and steps that all formats share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.adjacency import undirected_edges
from grb_check.datasets.reading.npz import blocks, integers
from grb_check.datasets.source import DataNotice, SplitRule
from grb_check.datasets.splits import Int64Array, Split, given_split, grb_split, held_out
from grb_check.datasets.unlabelled import NO_CLASS, labelled_nodes, without_nan
from grb_check.errors import DataError, count


@dataclass(frozen=True, eq=False, kw_only=True)
class Masks:
    """A dataset's own split, bool [num_nodes] each."""

    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]


def dataset_of(
    *,
    name: str,
    origin: str,
    where: str,
    features: NDArray[Any],
    adjacency: sp.csr_array,
    labels: NDArray[Any],
    masks: Masks | None = None,
    split: SplitRule | None = "grb",
    rebuilt: bool = False,
    edges_of: Callable[[sp.csr_array, str], Int64Array] = undirected_edges,
) -> Dataset:
    """Make a dataset with raw features from plain arrays, which are checked.

    Args:
        name: as in case ids.
        origin: where the data came from, for reports; the split is added.
        where: file, directory or function, for messages.
        features: raw, real [num_nodes, num_features].
        adjacency: [num_nodes, num_nodes] without stored zeros, from `matrix_of_pairs` or
            `read_matrix`; each entry stands for an edge.
        labels: int [num_nodes], or one-hot [num_nodes, num_classes]; `NO_CLASS`, or NaN among
            floats, for nodes without a class.
        masks: the dataset's own split, None if it has none.
        split: `grb` for GRB's (`grb_split`), `given` for the masks (`given_split`), None
            for the masks if there are any, else GRB's.
        rebuilt: made from another project's files in place of GRB's own.
        edges_of: makes both directions of each pair of nodes of the adjacency, for attacks.

    Raises:
        DataError: something is missing, contradictory or out of range.

    Warns:
        DataNotice: the edges were repaired; a class has no node, or a node no class; or nodes were
            held out of the training for validation.
    """
    num_nodes = features.shape[0] if features.ndim else 0
    classes = class_numbers(without_nan(labels, where), where)
    labelled = labelled_nodes(classes, where)
    num_classes = check_labels(classes, num_nodes, where)
    values = check_features(features, num_nodes, where)
    if adjacency.shape[0] != num_nodes:
        raise DataError(
            f"{where}: edges between {count(adjacency.shape[0], 'node')}, but "
            f"{count(num_nodes, 'node')}"
        )
    edges = edges_of(adjacency, where)
    degrees = np.bincount(edges[0], minlength=num_nodes)
    own_training = None
    if split == "given" or (split is None and masks is not None):
        parts = _given(masks, degrees, classes, where)
        origin += ", its own split"
    else:
        parts = grb_split(degrees, among=np.flatnonzero(labelled))
        origin += ", GRB's split"
        own_training = None if masks is None else np.flatnonzero(masks.train)
    return assemble(
        name=name,
        origin=origin,
        features=values,
        edges=edges,
        labels=classes,
        num_classes=num_classes,
        split=parts,
        rebuilt=rebuilt,
        own_training=own_training,
        given_dtype=str(features.dtype),
    )


def check_features(features: NDArray[Any], num_nodes: int, where: str) -> NDArray[np.float32]:
    """Return raw features as float32 [num_nodes, num_features]; the same array if possible.

    Raises:
        DataError: wrong dtype or shape, or a value that is not finite as float32.
    """
    if features.ndim != 2 or features.dtype.kind not in "biuf" or not features.shape[1]:
        shape = "x".join(map(str, features.shape)) or "scalar"
        msg = (
            f"{where}: features must be real numbers [nodes, features], "
            f"not {features.dtype} [{shape}]"
        )
        raise DataError(msg)
    if features.shape[0] != num_nodes:
        msg = f"{where}: features of {count(features.shape[0], 'node')}, but there are {num_nodes}"
        raise DataError(msg)
    with np.errstate(over="ignore"):  # too large values become infinite and are reported below
        values = np.ascontiguousarray(features, dtype=np.float32)
    bad = np.concatenate([~np.isfinite(values[rows]).all(axis=1) for rows in blocks(values)])
    if bad.any():
        wrong = int((~np.isfinite(values[bad])).sum())
        msg = (
            f"{where}: NaN or infinite as float32 in {count(wrong, 'value')} of "
            f"{count(int(bad.sum()), 'row')}, "
            f"the first in row {int(np.flatnonzero(bad)[0])}"
        )
        raise DataError(msg)
    return values


def class_numbers(labels: NDArray[Any], where: str) -> Int64Array:
    """Return int64 [num_nodes] from class numbers or from one-hot rows [num_nodes, num_classes].

    GRB's loader accepts both layouts.

    Raises:
        DataError: other numbers or shapes; several classes for one node.
    """
    if labels.ndim != 2:
        return integers(labels, where)
    if labels.dtype.kind not in "biuf" or not labels.size:
        shape = "x".join(map(str, labels.shape))
        raise DataError(f"{where}: labels must be class numbers, not {labels.dtype} [{shape}]")
    ones = labels == 1
    if not ((ones | (labels == 0)).all() and (ones.sum(axis=1) == 1).all()):
        raise DataError(
            f"{where}: labels of shape {list(labels.shape)} are not one-hot; a node has one class"
        )
    numbers: Int64Array = ones.argmax(axis=1).astype(np.int64)
    return numbers


def check_labels(labels: Int64Array, num_nodes: int, where: str) -> int:
    """Return the number of classes of int64 [num_nodes] labels, apart from `NO_CLASS`.

    Raises:
        DataError: wrong length, no label, only one class, or a label that is not less than the
            number of nodes.

    Warns:
        DataNotice: a class between 0 and the highest has no node.
    """
    if labels.size != num_nodes or not num_nodes:
        msg = f"{where}: {count(labels.size, 'label')}, but {count(num_nodes, 'node')}"
        raise DataError(msg)
    labels = labels[labels != NO_CLASS]
    if not labels.size:
        raise DataError(f"{where}: no node has a class; classes are 0, 1, ...")
    low, high = int(labels.min()), int(labels.max())
    if high >= num_nodes:
        msg = f"{where}: labels range from {low} to {high}; allowed are 0 .. {num_nodes - 1}"
        raise DataError(msg)
    if high == 0:
        raise DataError(f"{where}: all labels are 0; classification needs at least two classes")
    empty = np.flatnonzero(np.bincount(labels) == 0)
    if empty.size:
        msg = (
            f"{where}: no node in {count(empty.size, 'class', 'classes')} of {high + 1}, the "
            f"first is {empty[0]}"
        )
        warnings.warn(msg, DataNotice, stacklevel=2)
    return high + 1


def assemble(
    *,
    name: str,
    origin: str,
    features: NDArray[np.float32],
    edges: Int64Array,
    labels: Int64Array,
    num_classes: int,
    split: Split,
    rebuilt: bool = False,
    own_training: Int64Array | None = None,
    given_dtype: str = "float32",
) -> Dataset:
    """Make a dataset with raw features from checked arrays.

    Args:
        name: as in case ids.
        origin: where the data came from.
        features: raw, float32 [num_nodes, num_features].
        edges: int64 [2, 2 * num_edges], both directions, sorted.
        labels: int64 [num_nodes].
        num_classes: number of classes.
        split: sorted node ids.
        rebuilt: see `Dataset`.
        own_training: see `Dataset`.
        given_dtype: see `Dataset`.
    """
    graph = Data(
        x=torch.from_numpy(features),
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
        raw_feature_range=(float(features.min()), float(features.max())),
        origin=origin,
        rebuilt=rebuilt,
        own_training=None if own_training is None else torch.from_numpy(own_training),
        given_dtype=given_dtype,
    )


def _given(masks: Masks | None, degrees: Int64Array, classes: Int64Array, where: str) -> Split:
    if masks is None:
        raise DataError(f"{where}: has no split of its own; use --grb-split=grb")
    known = classes != NO_CLASS
    train, val, test = (
        np.flatnonzero(mask & known) for mask in (masks.train, masks.val, masks.test)
    )
    if not val.size:
        train, val = held_out(train, classes, where)
    return given_split(train, val, test, degrees, where)
