"""The state of a module that is being trained, to be put back."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn


def kept_state(module: nn.Module) -> Callable[[], None]:
    """Return what puts a module's state back as it is now.

    That is what its state dict is of: parameters, persistent buffers, and extra state. The state
    dict itself cannot be loaded again where a part saves other names than it loads, as a linear
    layer of PyG does whose weight has a parametrisation, such as a spectral norm.
    """
    parts = list(module.modules())
    tensors = [
        (part, name, tensor.detach().clone())
        for part in parts
        for name, tensor in (
            *part.named_parameters(recurse=False),
            *part.named_buffers(recurse=False),
        )
        if name not in getattr(part, "_non_persistent_buffers_set", ())
    ]
    extra = [
        (part, copy.deepcopy(part.get_extra_state()))
        for part in parts
        if type(part).get_extra_state is not nn.Module.get_extra_state
    ]

    def put_back() -> None:
        for part, name, kept in tensors:
            tensor = getattr(part, name)
            if tensor.shape == kept.shape:
                with torch.no_grad():
                    tensor.copy_(kept)
            else:  # a buffer of another size, such as of as many rows as there are nodes
                tensor.data = kept.clone()
        for part, state in extra:
            part.set_extra_state(copy.deepcopy(state))

    return put_back
