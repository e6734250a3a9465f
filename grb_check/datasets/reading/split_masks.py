"""The split of a graph's own masks, of which a column each may be one split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from grb_check.datasets.assembly import Masks
from grb_check.datasets.reading.dense_arrays import dense_array
from grb_check.errors import DataError, count

PARTS: Final = ("train", "val", "test")


def split_masks(data: Data, num_nodes: int, where: str, number: int) -> tuple[Masks | None, str]:
    """Return the masks of a split, and a remark for the origin; None if the graph has no masks.

    Args:
        data: with `train_mask`, `test_mask` and perhaps `val_mask`, bool [N] or [N, splits].
        num_nodes: N.
        where: the dataset, for messages.
        number: of the split, from 1; 0 for none in particular, which is the first.

    Raises:
        DataError: one is missing, is no mask, or has another number of splits; or there is no split
            of that number.
    """
    keys = [f"{part}_mask" for part in PARTS]
    present = [key for key in keys if getattr(data, key, None) is not None]
    if not present:
        if number > 1:
            raise DataError(f"{where}: has no masks, so that it has no split {number}")
        return None, ""
    absent = [key for key in ("train_mask", "test_mask") if key not in present]
    if absent:
        raise DataError(
            f"{where}: has {', '.join(present)}, but no {', '.join(absent)}; add it, or give "
            f"--grb-split=grb for a model that is trained here"
        )
    masks = {key: np.zeros(num_nodes, dtype=np.bool_) for key in keys}
    arrays = {key: dense_array(data[key], f"{where}: {key}") for key in present}
    splits = _splits_of(arrays, where)
    if number > splits:
        advice = (
            f"give a number from 1 to {splits} behind #" if splits > 1 else f"leave out #{number}"
        )
        raise DataError(f"{where}: has {count(splits, 'split')}, and no split {number}; {advice}")
    for key, values in arrays.items():
        several = values.ndim == 2 and values.shape[1] > 1
        of_split = values[:, max(number, 1) - 1] if several else values
        single = of_split.ndim == 2 and of_split.shape[1] == 1
        masks[key] = _mask(of_split[:, 0] if single else of_split, num_nodes, f"{where}: {key}")
    remark = ""
    if splits > 1:
        remark = f" (split {max(number, 1)} of {splits}{'' if number else '; #2 names another'})"
    train, val, test = (masks[key] for key in keys)
    return Masks(train=train, val=val, test=test), remark


def _splits_of(masks: Mapping[str, NDArray[Any]], where: str) -> int:
    """Return the number of splits; masks with one column, or none, belong to all of them.

    Raises:
        DataError: masks have different numbers of columns.
    """
    columns = {key: mask.shape[1] for key, mask in masks.items() if mask.ndim == 2}
    several = {number for number in columns.values() if number > 1}
    if len(several) > 1:
        shapes = ", ".join(f"{key} {list(masks[key].shape)}" for key in columns)
        raise DataError(
            f"{where}: {shapes}: a split is one column of each; give all masks the same number of "
            f"columns, or one"
        )
    return max(several, default=1)


def _mask(values: NDArray[Any], num_nodes: int, where: str) -> NDArray[np.bool_]:
    truth = values.dtype.kind == "b" or (
        values.dtype.kind in "iu"
        and values.shape == (num_nodes,)
        and bool(np.isin(values, (0, 1)).all())
    )
    if truth and values.shape == (num_nodes,):
        return values.astype(np.bool_)
    kind = "node ids" if values.dtype.kind in "iu" else f"{values.dtype}{list(values.shape)}"
    raise DataError(
        f"{where}: must be one truth value for each of {count(num_nodes, 'node')}, not {kind}"
        + ("; torch_geometric.utils.index_to_mask makes a mask of them" if kind[0] == "n" else "")
    )
