"""Derivatives of many values along one direction, by two backward passes for all of them."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

SAME: Final = 1e-3  # relative error of the sum of all slopes


def slopes_along(values: Tensor, inputs: Tensor, direction: Tensor) -> Tensor | None:
    """Return the derivative of each value float [s] along a direction of the inputs, float [s].

    The backward pass maps weights v of the values to J^T v. It is linear in v, so that its own
    backward pass with the direction gives J times the direction: forward mode from two backward
    passes (Townsend 2017, "A new trick for calculating Jacobian vector products").

    Args:
        values: as computed from the inputs with gradients on.
        inputs: float, of any shape.
        direction: of the same shape.

    Returns:
        None if the backward pass fails, cannot be differentiated, or its derivative does not agree
        with it: where a function has a backward pass of its own, nothing ensures that.
    """
    weights = torch.ones_like(values, requires_grad=True)
    options = {"retain_graph": True, "allow_unused": True}
    try:
        (gradient,) = torch.autograd.grad(values, inputs, weights, create_graph=True, **options)
        if gradient is None or not gradient.requires_grad:
            return None
        (slopes,) = torch.autograd.grad(gradient, weights, direction, **options)
    except RuntimeError:  # out of memory, too: one after the other needs less
        return None
    if slopes is None:
        return None
    total = (gradient.detach() * direction).sum()
    agree = bool((slopes.sum() - total).abs() <= SAME * slopes.abs().sum())
    return slopes.detach() if agree else None
