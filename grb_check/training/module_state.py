"""The state of a module that is being trained, to be put back."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


def kept_state(module: nn.Module) -> Callable[[], None]:
    """Return what loads a module's state dict as it is now.

    If it cannot be loaded, parameters and buffers are filled: a part may save other names than it
    loads, as a linear layer of PyG does whose weight has a parametrisation, such as a spectral
    norm.
    """
    state = copy.deepcopy(module.state_dict())
    tensors = [
        (part, name, tensor.detach().clone())
        for part in module.modules()
        for name, tensor in _own_tensors(part).items()
        if not is_lazy(tensor)
    ]

    def put_back() -> None:
        try:
            module.load_state_dict(state)
        except RuntimeError:
            for part, name, kept in tensors:
                _fill(part, name, kept)

    return put_back


def _own_tensors(part: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and persistent buffers that are not of a part of it."""
    parameters = part.named_parameters(recurse=False, remove_duplicate=False)
    buffers = part.named_buffers(recurse=False, remove_duplicate=False)
    passing = getattr(part, "_non_persistent_buffers_set", ())
    return dict(parameters) | {name: buffer for name, buffer in buffers if name not in passing}


def _fill(part: nn.Module, name: str, kept: Tensor) -> None:
    tensor = getattr(part, name)
    if tensor is None:
        setattr(part, name, kept)
    elif tensor.shape == kept.shape:
        with torch.no_grad():
            tensor.copy_(kept)
    else:  # such as of as many rows as there are nodes
        tensor.data = kept
