"""Evaluation mode and frozen parameters of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def freeze(module: nn.Module) -> None:
    """Set evaluation mode, and switch off the gradients of all parameters."""
    module.eval()
    for parameter in module.parameters():  # TorchScript has no Module.requires_grad_
        parameter.requires_grad_(False)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode inside; restore the mode of every part afterwards, also on errors."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Freeze a module inside; restore modes and `requires_grad` afterwards, also on errors."""
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    with evaluating(module):
        try:
            freeze(module)
            yield
        finally:
            for parameter, requires_grad in flags:
                parameter.requires_grad_(requires_grad)
