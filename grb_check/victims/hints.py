"""What may be wrong with a module that raises, or returns something of another shape."""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

FIXED_SIZE: Final = (
    "; a model must answer for graphs of any number of nodes: it is trained on a part of the "
    "graph, and attacks add nodes, so that an embedding of node ids has no row for some"
)


def hint(module: nn.Module, error: BaseException) -> str:
    """Return advice on an error of a module; empty without any."""
    text = str(error)
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return ""
    double = any(each.dtype == torch.float64 for each in module.parameters())
    if double and any(word in text for word in ("dtype", "Double", "scalar type")):
        return "\nits parameters are float64, and features are float32: call module.float()"
    if "cuda" in text.lower():
        return "\nleave the device to the harness: no .cuda(), and new tensors on x.device"
    embeds = any(isinstance(each, nn.Embedding) for each in module.modules())
    if embeds and isinstance(error, (RuntimeError, IndexError)):
        return "\n" + FIXED_SIZE.removeprefix("; ")
    return ""
