"""Columns of features that are statistics of the edges, and stay when edges change."""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from grb_check.datasets.source import DataNotice
from grb_check.errors import count

MOST_NODES: Final = 2_000  # that are looked at
MOST_COLUMNS: Final = 1_000  # that are compared with the means of all
SAME: Final = 0.999  # a correlation from which on a column is taken for the statistic
# Least different values of a column, less one: a flag is no statistic, nor is the count of a word.
OF_DEGREE: Final = 2
OF_MEAN: Final = 8
SHOWN: Final = 5


class FrozenColumnWarning(DataNotice):
    """A column of the features was computed from the edges."""


def check_columns(graph: Data, name: str) -> None:
    """Warn of columns that follow the number of neighbours, or the mean of another column there.

    An attack changes edges and leaves features as they are. A model that uses such a column sees
    less of the attack than one whose columns are computed anew when edges change.

    Args:
        graph: `x` float [N, d] and `edge_index` int64 [2, e].
        name: of the dataset, for the message.
    """
    nodes = _sample(graph)
    if nodes.numel() < 10:
        return
    x = graph.x[nodes].double().numpy()
    changes = (np.diff(np.sort(x, axis=0), axis=0) != 0).sum(0)
    several, varied = ((changes >= least).nonzero()[0] for least in (OF_DEGREE, OF_MEAN))
    varied = varied[:MOST_COLUMNS]
    if not several.size:
        return
    neighbours, means = _around(graph, nodes)
    by_degree = _alike(_ranks(x[:, several]), _ranks(neighbours[:, None]))
    of_means = _alike(x[:, varied], means)
    # Where two columns are alike, the mean of one follows the other by smoothness alone.
    of_means[_alike(x[:, varied], x) >= SAME] = 0.0
    for columns, alike, what in (
        (several, by_degree, "the number of neighbours of a node"),
        (varied, of_means, "the mean of another column over the neighbours"),
    ):
        found = columns[(alike >= SAME).any(1)]
        if found.size:
            warnings.warn(FrozenColumnWarning(_message(name, found, what)), stacklevel=2)


def _message(name: str, columns: NDArray[np.int64], what: str) -> str:
    numbers = ", ".join(map(str, columns[:SHOWN].tolist()))
    more = f" and {columns.size - SHOWN} more" if columns.size > SHOWN else ""
    return (
        f"{name}: {count(columns.size, 'column')} of the features ({numbers}{more}) follow {what}, "
        f"and stay as they are when an attack changes edges: a model that uses them looks more "
        f"robust than where they are computed anew; compute them in its forward, or leave them out"
    )


def _sample(graph: Data) -> Tensor:
    """Return some nodes that have neighbours, int64 [m], the same every time."""
    connected = torch.bincount(graph.edge_index[0], minlength=1).nonzero().flatten()
    order = torch.randperm(connected.numel(), generator=torch.Generator().manual_seed(0))
    some: Tensor = connected[order[:MOST_NODES]].sort().values
    return some


def _around(graph: Data, nodes: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of neighbours [m] and the means of their features [m, d]."""
    place = torch.full((int(graph.num_nodes),), -1)
    place[nodes] = torch.arange(nodes.numel())
    row, column = graph.edge_index
    kept = (place[row] >= 0) & (row != column)
    row, column = place[row[kept]], column[kept]
    sums = torch.zeros(nodes.numel(), graph.x.shape[1], dtype=torch.float64)
    for part in torch.split(torch.arange(row.numel()), 1 << 16):
        sums.index_add_(0, row[part], graph.x[column[part]].double())
    numbers = torch.bincount(row, minlength=nodes.numel()).double()
    return numbers.numpy(), (sums / numbers.clamp(min=1)[:, None]).numpy()


def _ranks(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each entry in its column, the mean rank of those that are equal.

    As `scipy.stats.rankdata` does, which takes a second to import.
    """
    ranks = np.empty(columns.shape)
    for column in range(columns.shape[1]):
        _, places, counts = np.unique(columns[:, column], return_inverse=True, return_counts=True)
        ranks[:, column] = (counts.cumsum() - (counts - 1) / 2)[places]
    return ranks


def _alike(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the absolute correlation of each column [m, c] with each other [m, k]; 0 of constant
    columns."""
    sides = []
    for side in (first, second):
        centred = side - side.mean(0)
        norms = np.linalg.norm(centred, axis=0)
        varies = norms > 1e-9 * np.abs(side).max(0, initial=0.0) * np.sqrt(side.shape[0])
        sides.append(np.where(varies, centred / np.where(varies, norms, 1.0), 0.0))
    alike: NDArray[np.float64] = np.abs(sides[0].T @ sides[1])
    return alike
