"""Copies of modules, so that neither trials nor freezing change the user's own."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from typing import cast

import torch
from torch import nn


def copy_of(module: nn.Module) -> nn.Module:
    """Return a copy of a module; itself if it cannot be copied.

    `victims.checks.check_no_state_kept` warns of one that cannot.
    """
    try:
        scripted = {id(part): _copy_of_scripted(part) for part in _scripted(module)}
        return copy.deepcopy(module, scripted)
    except Exception:  # anything that a user's attribute raises
        return module


def _scripted(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the scripted parts of a module that are in no other one, or the module itself."""
    if isinstance(module, torch.jit.ScriptModule):
        yield module
        return
    for part in module.children():
        yield from _scripted(part)


def _copy_of_scripted(module: nn.Module) -> nn.Module:
    """Return a copy by way of a file: a deep copy has no leaves to freeze."""
    with io.BytesIO() as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript as a whole
        torch.jit.save(module, stream)
        stream.seek(0)
        return cast(nn.Module, torch.jit.load(stream))  # type: ignore[no-untyped-call]
