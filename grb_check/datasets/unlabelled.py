"""Nodes without a class: they stay in the graph, and are in no part of the split."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grb_check.datasets.source import DataChange
from grb_check.errors import DataError, count

NO_CLASS: Final = -1


def without_nan(labels: NDArray[Any], where: str) -> NDArray[Any]:
    """Return labels float [n] that have NaN for nodes without a class as int64, with `NO_CLASS`.

    Labels without NaN are returned as they are.

    Raises:
        DataError: the others are not whole numbers.
    """
    if labels.ndim != 1 or labels.dtype.kind != "f":
        return labels
    unknown = np.isnan(labels)
    if not unknown.any():
        return labels
    known = labels[~unknown]
    if not (np.isfinite(known).all() and (known == np.round(known)).all()):
        raise DataError(
            f"{where}: {labels.dtype} with NaN in {unknown.sum()} of "
            f"{count(labels.size, 'label')}, and others that are not whole numbers; classes are "
            f"0, 1, ..., and NaN or {NO_CLASS} for nodes without one"
        )
    result = np.full(labels.shape, NO_CLASS, dtype=np.int64)
    result[~unknown] = known.astype(np.int64)
    return result


def labelled_nodes(labels: NDArray[np.int64], where: str) -> NDArray[np.bool_]:
    """Return which nodes have a class, bool [n], of labels int64 [n].

    Raises:
        DataError: a label is negative and not `NO_CLASS`, or there are `NO_CLASS` and 1 alone.

    Warns:
        DataChange: some nodes have no class.
    """
    known: NDArray[np.bool_] = labels != NO_CLASS
    low = int(labels.min(initial=0))
    if low < NO_CLASS:
        raise DataError(
            f"{where}: labels range from {low} to {int(labels.max())}; classes start at 0, and "
            f"{NO_CLASS} stands for a node without a class"
        )
    if known.all():
        return known
    if set(np.unique(labels)) == {NO_CLASS, 1}:
        raise DataError(
            f"{where}: all labels are -1 or 1; -1 stands for a node without a class, and one class "
            f"is left; if these are two classes, give (y + 1) // 2"
        )
    missing = labels.size - int(known.sum())
    msg = (
        f"{where}: {missing:,} of {count(labels.size, 'node')} have no class (NaN or {NO_CLASS}); "
        f"they stay in the graph, and are in no part of the split"
    )
    warnings.warn(msg, DataChange, stacklevel=2)
    return known
