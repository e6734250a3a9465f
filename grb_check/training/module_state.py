"""Saving and restoring the state of a module that is being trained."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


def state_restorer(module: nn.Module) -> Callable[[], None]:
    """Return a function that restores the present state of a module.

    It loads the state dict. If that fails, it copies parameters and buffers instead: some modules
    save other names than they load, such as PyG's linear layer with a spectral norm.
    """
    state_dict = copy.deepcopy(module.state_dict())
    tensors = [
        (part, name, tensor.detach().clone())
        for part in module.modules()
        for name, tensor in _direct_tensors(part).items()
        if not is_lazy(tensor)
    ]

    def restore() -> None:
        try:
            module.load_state_dict(state_dict)
        except RuntimeError:
            for part, name, saved in tensors:
                _copy_into(part, name, saved)

    return restore


def _direct_tensors(part: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and persistent buffers of a module without those of its children."""
    parameters = part.named_parameters(recurse=False, remove_duplicate=False)
    buffers = part.named_buffers(recurse=False, remove_duplicate=False)
    transient = getattr(part, "_non_persistent_buffers_set", ())
    return dict(parameters) | {name: buffer for name, buffer in buffers if name not in transient}


def _copy_into(part: nn.Module, name: str, saved: Tensor) -> None:
    tensor = getattr(part, name)
    if tensor is None:
        setattr(part, name, saved)
    elif tensor.shape == saved.shape:
        with torch.no_grad():
            tensor.copy_(saved)
    else:  # for example, a buffer with one row per node
        tensor.data = saved
