"""Make a `GraphSet` from arrays: checks and steps that all formats of sets of graphs share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from grb_check.datasets.assembly import check_features
from grb_check.datasets.given_edges import EdgeAttribute, given_edges
from grb_check.datasets.graph_dataset import SEED, GraphSet
from grb_check.datasets.reading.adjacency import matrix_of_pairs, pairs_of_nodes
from grb_check.datasets.source import DataChange, DataNotice
from grb_check.errors import DataError, count

Int64Array = NDArray[np.int64]

TRAIN_SHARE: Final = 0.8


@dataclass(frozen=True, eq=False, kw_only=True)
class SetSplit:
    """A set's own split, int64 [.] graph ids each; `val` is None if it is to be drawn."""

    train: Int64Array
    val: Int64Array | None
    test: Int64Array


@dataclass(frozen=True, eq=False, kw_only=True)
class RawGraphs:
    """Graphs side by side, as a format read them.

    Attributes:
        sizes: int64 [num_graphs], number of nodes of each graph.
        pairs: int [2, num_pairs], node ids, numbered through all graphs; no pair joins two graphs.
        labels: int64 [num_graphs].
        features: real [num_nodes, num_features]; None if the nodes have none.
        split: None if the set has none.
        attributes: of the pairs, [num_pairs, ...] each.
        user_graphs: see `GraphSet`.
        given_dtype: type of the features as they were given; None for that of `features`.
    """

    sizes: Int64Array
    pairs: NDArray[Any]
    labels: Int64Array
    features: NDArray[Any] | None
    split: SetSplit | None = None
    attributes: Mapping[EdgeAttribute, Tensor] = field(default_factory=dict)
    user_graphs: Sequence[Data] = ()
    given_dtype: str | None = None


def graph_set_of(raw: RawGraphs, *, name: str, origin: str, where: str) -> GraphSet:
    """Make a set of graphs from plain arrays, which are checked.

    Nodes without features get a constant (`constant_features`). The split is the set's own; a set
    without one is split at random, see `drawn_split`.

    Args:
        raw: see `RawGraphs`.
        name: as in case ids.
        origin: where the data came from, for reports; features and split are added.
        where: file, directory or function, for messages.

    Raises:
        DataError: something is missing, contradictory or out of range.

    Warns:
        DataNotice: there are no features, or a class has no graph.
    """
    _check_sizes(raw.sizes, where)
    num_nodes = int(raw.sizes.sum())
    num_classes = check_graph_labels(raw.labels, raw.sizes.size, where)
    edges, _ = pairs_of_nodes(
        matrix_of_pairs(raw.pairs, num_nodes, f"{where}: edge_index"), where, what="graphs have"
    )
    given = given_edges(torch.from_numpy(raw.pairs.astype(np.int64)), raw.attributes, num_nodes)
    if raw.features is None:
        features = constant_features(num_nodes, where)
        origin += ", constant features"
    else:
        features = check_features(raw.features, num_nodes, where)
    if raw.split is None:
        origin += f", 80/20 split with seed {SEED}"
        split = drawn_split(raw.sizes.size, where)
    else:
        origin += ", its own split"
        split = raw.split
    _check_split(split, raw.labels, num_classes, where)
    graphs = Data(
        x=torch.from_numpy(features),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(raw.labels),
        batch=torch.from_numpy(np.repeat(np.arange(raw.sizes.size), raw.sizes)),
        ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(raw.sizes)])),
    )
    return GraphSet(
        name=name,
        graphs=graphs,
        train=torch.from_numpy(split.train),
        val=None if split.val is None else torch.from_numpy(split.val),
        test=torch.from_numpy(split.test),
        num_classes=num_classes,
        origin=origin,
        own_split=raw.split is not None,
        given_dtype=raw.given_dtype
        or str((features if raw.features is None else raw.features).dtype),
        given_edges=given if raw.attributes or not given.one_each else None,
        user_graphs=raw.user_graphs,
    )


def check_graph_labels(labels: Int64Array, num_graphs: int, where: str) -> int:
    """Return the number of classes of int64 [num_graphs] labels.

    Raises:
        DataError: wrong length, a negative label, only one class, or a label that is not less than
            the number of graphs.

    Warns:
        DataNotice: a class between 0 and the highest has no graph.
    """
    if labels.size != num_graphs:
        raise DataError(f"{where}: {count(labels.size, 'label')} of {count(num_graphs, 'graph')}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_graphs:
        raise DataError(
            f"{where}: y ranges from {low} to {high}; classes are integers from 0, and there are "
            f"fewer of them than the {count(num_graphs, 'graph')}; number them with "
            f"torch.unique(y, return_inverse=True)[1]"
        )
    if low == high:
        raise DataError(
            f"{where}: all graphs have the same class, {low}; classification needs two or more"
        )
    empty = np.flatnonzero(np.bincount(labels) == 0)
    if empty.size:
        msg = (
            f"{where}: no graph in {count(empty.size, 'class', 'classes')} of {high + 1}, the "
            f"first is {empty[0]}"
        )
        warnings.warn(msg, DataNotice, stacklevel=2)
    return high + 1


def constant_features(num_nodes: int, where: str) -> NDArray[np.float32]:
    """Return the features of nodes that have none: ones, float32 [num_nodes, 1].

    Degrees, which are often used, would tell a model the edges from before the attack: attacks
    change edges and leave features as they are. A model can compute degrees from the edges it gets.

    Args:
        num_nodes: of all graphs.
        where: file, directory or function, for messages.

    Warns:
        DataChange: always, because figures depend on these features.
    """
    msg = (
        f"{where}: the nodes have no features; models get the constant 1, from which they can "
        f"compute degrees; degrees as features would not change under attack"
    )
    warnings.warn(msg, DataChange, stacklevel=2)
    return np.ones((num_nodes, 1), dtype=np.float32)


def drawn_split(num_graphs: int, where: str) -> SetSplit:
    """Split a set at random into 80 % and 20 % with seed 42; validation graphs are drawn later.

    The shares are those of Guerranti et al., "On the Adversarial Robustness of Graph Contrastive
    Learning Methods" (GLFrontiers 2023); the seed is ours.

    Raises:
        DataError: there are too few graphs.
    """
    order = np.random.default_rng(SEED).permutation(num_graphs)
    cut = int(TRAIN_SHARE * num_graphs)
    if not 0 < cut < num_graphs:
        raise DataError(f"{where}: {count(num_graphs, 'graph')} are too few to be split")
    return SetSplit(train=np.sort(order[:cut]), val=None, test=np.sort(order[cut:]))


def _check_sizes(sizes: Int64Array, where: str) -> None:
    if not sizes.size:
        raise DataError(f"{where}: has no graphs")
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        raise DataError(
            f"{where}: {count(empty.size, 'graph')} without nodes, the first is graph {empty[0]}; "
            f"leave them out"
        )


def _check_split(split: SetSplit, labels: Int64Array, num_classes: int, where: str) -> None:
    parts = {"training": split.train, "validation": split.val, "test": split.test}
    for part, graphs in parts.items():
        if graphs is not None and not graphs.size:
            drawn = ", or no such part: a tenth of the training graphs is then held out"
            raise DataError(
                f"{where}: its split has no graphs for {part}; give some"
                + (drawn if part == "validation" else "")
            )
    unlearnt = np.setdiff1d(np.unique(labels), labels[split.train])
    if unlearnt.size:
        msg = (
            f"{where}: no training graph in {count(unlearnt.size, 'class', 'classes')} of "
            f"{num_classes}, the first is {unlearnt[0]}"
        )
        warnings.warn(msg, DataNotice, stacklevel=2)
