"""GRB's feature normalisation and its inverse, and row normalisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import GraphSet
from grb_check.datasets.reading.dense import blocks

_BELOW_ONE: Final = float(np.nextafter(np.float32(1), np.float32(0)))


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Mean and standard deviation of a whole feature matrix; `std` is 0 if it is constant."""

    mean: float
    std: float


def normalise(
    x: NDArray[Any], out: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float32], Moments]:
    r"""Return the features in GRB's range, and the moments that undo it.

    .. math::
        F' = \frac{2}{\pi} \arctan\left(\frac{F - \mathrm{mean}(F)}{\mathrm{std}(F)}\right)

    with the mean and the population standard deviation of all entries of the matrix (GRB,
    section 4.1, "Feature Normalization"). An entry of n is at most sqrt(n - 1) deviations from the
    mean, so no matrix that fits into memory has a result that rounds to 1.0. A constant matrix
    becomes zeros.

    Args:
        x: real [num_nodes, num_features], finite as float32.
        out: float32 [num_nodes, num_features], receives the result; may be `x`, which is otherwise
            not changed.

    Returns:
        float32 [num_nodes, num_features] in (-1, 1), and the moments; computed in float64.
    """
    result = np.empty(x.shape, dtype=np.float32) if out is None else out
    low = float(x.min())
    if low == float(x.max()):
        result.fill(0)
        return result, Moments(mean=low, std=0.0)
    mean = sum(float(x[rows].sum(dtype=np.float64)) for rows in blocks(x)) / x.size
    # numpy before 2 would keep float32 here, where squares overflow
    squares = sum(float(np.square(x[rows].astype(np.float64) - mean).sum()) for rows in blocks(x))
    moments = Moments(mean=mean, std=float(np.sqrt(squares / x.size)))
    for rows in blocks(x):
        deviation = (x[rows].astype(np.float64) - moments.mean) / moments.std
        result[rows] = np.arctan(deviation) * (2 / np.pi)
    return result, moments


def denormalise(x: NDArray[Any], moments: Moments) -> NDArray[np.float32]:
    """Return the raw features that `normalise` maps to `x`.

    Values of 1 and more, which `normalise` never returns, count as the largest float32 below 1
    (about 10 million deviations), so that the result is finite; likewise at -1.

    Args:
        x: real [num_nodes, num_features] in GRB's range.
        moments: from `normalise`.

    Returns:
        float32 [num_nodes, num_features], exact up to the rounding of `x` to float32.
    """
    result = np.empty(x.shape, dtype=np.float32)
    for rows in blocks(x):
        inside = np.clip(x[rows].astype(np.float64), -_BELOW_ONE, _BELOW_ONE)
        result[rows] = np.tan(inside * (np.pi / 2)) * moments.std + moments.mean
    return result


def with_row_features(dataset: Dataset) -> Dataset:
    r"""Return the dataset with raw features F whose rows are scaled, :math:`F_i / \sum_j |F_{ij}|`.

    This is the preprocessing of GCN, DGI and most papers on Planetoid's graphs. GRB's normalisation
    is undone first, with parameters from the ranges before and after it; values within a millionth
    of the range of 0 become 0. A row of zeros stays as it is.
    """
    low, high = dataset.raw_feature_range
    x = dataset.graph.x.numpy()
    if high > low:
        ends = np.tan(np.array([x.min(), x.max()], dtype=np.float64) * (np.pi / 2))
        std = (high - low) / (ends[1] - ends[0])
        x = denormalise(x, Moments(mean=float(low - std * ends[0]), std=float(std)))
        x[np.abs(x) < 1e-6 * (high - low)] = 0
    else:
        x = np.full_like(x, low)
    graph = dataset.graph.clone()
    graph.x = torch.from_numpy(_row_scaled(x))
    origin = f"{dataset.origin}, row-normalised features"
    return replace(dataset, graph=graph, row_features=True, origin=origin)


def with_row_features_of_graphs(graphs: GraphSet) -> GraphSet:
    """Return the set with the features of each node scaled as `with_row_features` does."""
    whole = graphs.graphs.clone()
    whole.x = torch.from_numpy(_row_scaled(whole.x.numpy()))
    return replace(graphs, graphs=whole, origin=f"{graphs.origin}, row-normalised features")


def _row_scaled(x: NDArray[np.float32]) -> NDArray[np.float32]:
    sums = np.abs(x).sum(axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(
        x, np.where(sums > 0, sums, np.float32(1)), dtype=np.float32
    )
    return scaled
