"""Copies of modules, so that neither trials nor freezing change the user's own."""

from __future__ import annotations

import copy
import io
import warnings
from typing import cast

import torch
from torch import nn


def copy_of(module: nn.Module) -> nn.Module:
    """Return a copy of a module; itself if it cannot be copied.

    `victims.checks.check_no_state_kept` warns of one that cannot.
    """
    try:
        if isinstance(module, torch.jit.ScriptModule):  # whose deep copy has no leaves to freeze
            with io.BytesIO() as stream, warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript as a whole
                torch.jit.save(module, stream)
                stream.seek(0)
                return cast(nn.Module, torch.jit.load(stream))  # type: ignore[no-untyped-call]
        return copy.deepcopy(module)
    except Exception:  # anything that a user's attribute raises
        return module
