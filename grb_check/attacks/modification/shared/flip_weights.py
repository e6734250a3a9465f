"""Flips as weights between 0 and 1: gains, steps, and projection onto budgets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

SETTLING: Final = 10  # steps after which the step size begins to fall
NEGLIGIBLE: Final = 1e-4  # weights up to this are dropped
_HALVINGS: Final = 60


def gains_of_flips(value: Callable[[Tensor], Tensor], present: Tensor, flipped: Tensor) -> Tensor:
    """Return the gain of flipping each pair a little more, float [m]; 0 where it is not finite.

    Args:
        value: from weights of the pairs float [m], 0 for none and 1 for an edge, to the objective.
        present: bool [m], which pairs are edges.
        flipped: float [m], 0 to 1, how much each pair is flipped.
    """
    was = present.to(flipped.dtype)
    variable = flipped.detach().clone().requires_grad_()
    with torch.enable_grad():
        total = value(was + (1 - 2 * was) * variable)
        (gradient,) = torch.autograd.grad(total, variable)
    return torch.where(gradient.isfinite(), gradient, 0.0)


def stepped(weights: Tensor, gains: Tensor, budgets: Tensor, step_size: float, step: int) -> Tensor:
    r"""Return weights float [V, m] after a step along the gains [V, m], not yet projected.

    Its size is relative to the mean size of the largest gains of each row, as many as its budget,
    so that it depends neither on the number of nodes nor on the scale of the objective, and decays
    as :math:`1 / \sqrt{1 + t / 10}`.

    Args:
        gains: -inf where there is no pair.
        budgets: int64 [V].
        step: t, from 0.
    """
    most = min(int(budgets.max()), gains.shape[1])
    largest = gains.topk(most, dim=1).values
    position = torch.arange(most, device=gains.device)
    counted = (position < budgets[:, None]) & largest.isfinite()
    mean = largest.abs().where(counted, 0.0).sum(1) / counted.sum(1).clamp(min=1)
    size = step_size / math.sqrt(1 + step / SETTLING)
    return weights + size * gains / mean.clamp(min=1e-30)[:, None]


def project(weights: Tensor, budgets: Tensor) -> Tensor:
    r"""Project on weights [V, m] with :math:`0 \le p_k \le 1` and row sums of at most budgets [V].

    `Topology Attack and Defense <https://arxiv.org/abs/1906.04214>`_ (Xu et al. 2019, equation 11):
    clip p - mu, with mu found by bisection, of all rows at once.
    """
    clipped = weights.clamp(0, 1)
    over = clipped.sum(1) > budgets
    if not bool(over.any()):
        return clipped
    low, high = weights.amin(1).double() - 1, weights.amax(1).double()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        lowered = weights - middle.to(weights.dtype)[:, None]
        above = lowered.clamp(0, 1).sum(1) > budgets
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    lowered = weights - high.to(weights.dtype)[:, None]
    return torch.where(over[:, None], lowered.clamp(0, 1), clipped)
