"""GRB's feature normalisation, and row normalisation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grb_check.datasets.reading.npz import blocks
from grb_check.datasets.source import FeatureRule

REMARKS: Final = {"grb": "", "rows": ", row-normalised features", "given": ", features as given"}


def scaled(x: NDArray[np.float32], rule: FeatureRule) -> NDArray[np.float32]:
    r"""Return the features by a rule, float32 [num_nodes, num_features]; `x` may be overwritten.

    `grb` is `normalise`. `rows` scales each row, :math:`F_i / \sum_j |F_{ij}|`, which is the
    preprocessing of GCN, DGI and most papers on Planetoid's graphs; a row of zeros stays as it is.

    Args:
        x: float32 [num_nodes, num_features], raw.
        rule: `given` to change nothing.
    """
    if rule == "grb":
        return normalise(x, out=x)
    if rule == "given":
        return x
    sums = np.abs(x).sum(axis=1, keepdims=True)
    rows: NDArray[np.float32] = np.divide(
        x, np.where(sums > 0, sums, np.float32(1)), dtype=np.float32
    )
    return rows


def normalise(x: NDArray[Any], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    r"""Return the features in GRB's range.

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
        float32 [num_nodes, num_features] in (-1, 1), computed in float64.
    """
    result = np.empty(x.shape, dtype=np.float32) if out is None else out
    mean, std = _moments(x)
    if not std:
        result.fill(0)
        return result
    for rows in blocks(x):
        result[rows] = np.arctan((x[rows].astype(np.float64) - mean) / std) * (2 / np.pi)
    return result


def normalised_range(x: NDArray[Any]) -> tuple[float, float]:
    """Return the smallest and the largest value that `normalise` gives, without making it."""
    mean, std = _moments(x)
    if not std:
        return 0.0, 0.0
    ends = (float(x.min()), float(x.max()))  # numpy would keep float32 here
    low, high = (float(np.arctan((end - mean) / std)) * 2 / np.pi for end in ends)
    return low, high


def _moments(x: NDArray[Any]) -> tuple[float, float]:
    """Mean and standard deviation of all entries; the latter is 0 if they are equal."""
    mean = sum(float(x[rows].sum(dtype=np.float64)) for rows in blocks(x)) / x.size
    if float(x.min()) == float(x.max()):
        return mean, 0.0
    # numpy before 2 would keep float32 here, where squares overflow
    squares = sum(float(np.square(x[rows].astype(np.float64) - mean).sum()) for rows in blocks(x))
    return mean, float(np.sqrt(squares / x.size))
