"""Attributes of graphs as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from grb_check.errors import DataError, one_line


def dense_array(value: Any, where: str) -> NDArray[Any]:
    """Return a dense tensor, on any device, as an array.

    Raises:
        DataError: it is something else, or numpy has no such dtype.
    """
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        raise DataError(f"{where}: is {kind_of(value)}, not a dense tensor")
    try:
        value = value.detach().cpu()
        if value.is_floating_point():  # numpy has no bfloat16
            value = value.float() if value.itemsize < 4 else value
        array: NDArray[Any] = value.numpy()
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        raise DataError(f"{where}: {value.dtype} cannot be read: {one_line(error)}") from error
    return array


def kind_of(value: object) -> str:
    """Return the class of a value, for messages."""
    name = "None" if value is None else f"{type(value).__module__}.{type(value).__qualname__}"
    return name.removeprefix("builtins.")


def keys_of(data: Data) -> str:
    """Return the names of all attributes, for messages."""
    return ", ".join(sorted(map(str, data.keys()))) or "nothing"
