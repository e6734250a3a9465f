"""Starts and steps of a search for features.

Steps of gradient ascent: from features and gradient to the next features within their range.

The last argument of a step scales its size, for all nodes or for each, see
`feature_search.maximise_each`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Scale = float | Tensor  # of all nodes, or float64 [n, 1]
Step = Callable[[Tensor, Tensor, Scale], Tensor]
Range = tuple[float, float]


def zero_start(like: Tensor, nodes: int, limits: Range) -> Tensor:
    """Return features float [nodes, d] as close to 0 as the range allows."""
    return like.new_zeros((nodes, like.shape[1])).clamp_(*limits)


def uniform_start(like: Tensor, nodes: int, limits: Range, generator: torch.Generator) -> Tensor:
    """Return uniform features float [nodes, d] in the range, with width and device of `like`."""
    low, high = limits
    uniform = torch.rand((nodes, like.shape[1]), generator=generator)
    return (low + (high - low) * uniform).clamp(low, high).to(like)


def sign_step(step_size: float, limits: Range) -> Step:
    """Return a step that moves each feature by the step size along the sign of its gradient."""
    low, high = limits

    def step(x: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
        return (x + length_of(scale * step_size, x) * gradient.sign()).clamp_(low, high)

    return step


def l2_step(step_size: float, limits: Range) -> Step:
    """Return a step that moves each node along its gradient, on (quadratic) average by the step
    size per feature."""
    low, high = limits

    def step(x: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
        direction = F.normalize(gradient, dim=1, eps=1e-30)
        length = length_of(scale * step_size * math.sqrt(x.shape[1]), x)
        return (x + length * direction).clamp_(low, high)

    return step


def free_adam(step_size: float) -> Step:
    """Return an Adam step (Kingma & Ba 2015) with default moments and without limits."""
    return _Adam(step_size)


def adam_step(step_size: float, limits: Range) -> Step:
    """Return an Adam step that clips to the range."""
    low, high = limits
    ascend = free_adam(step_size)
    return lambda x, gradient, scale: ascend(x, gradient, scale).clamp_(low, high)


class _Adam:
    """Gradient ascent by Adam; holds the moments of one search."""

    def __init__(self, step_size: float) -> None:
        self.step_size = step_size
        self.count = 0
        self.mean: Tensor | None = None
        self.square: Tensor | None = None

    def __call__(self, x: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
        if self.mean is None or self.square is None:
            self.mean, self.square = torch.zeros_like(x), torch.zeros_like(x)
        self.count += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        rate = length_of(scale * self.step_size / (1 - 0.9**self.count), x)
        # Gradients of a saturated objective are far below Adam's usual epsilon of 1e-8.
        spread = (self.square / (1 - 0.999**self.count)).sqrt_().add_(1e-12)
        return x + rate * self.mean / spread


def length_of(length: Scale, like: Tensor) -> Tensor:
    """Return the length of a step, [] or [n, 1], rounded to the dtype of the features once."""
    return torch.as_tensor(length, dtype=torch.float64).to(like)
