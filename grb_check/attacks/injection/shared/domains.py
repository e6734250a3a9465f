"""Domains of injected features: where a search starts, which steps it takes, and how it ends.

Steps of gradient ascent: from features and gradient to the next features within their range.

The last argument of a step scales its size, for all nodes or for each, see
`feature_search.maximise_each`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.threat import Threat

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


class Domain(Protocol):
    """The features that injected nodes may have, and a convex set around them to search in."""

    def zero_start(self, like: Tensor, nodes: int) -> Tensor:
        """Return features float [nodes, d] that prefer nothing, with width and device of `like`."""
        ...

    def uniform_start(self, like: Tensor, nodes: int, generator: torch.Generator) -> Tensor:
        """Return random features float [nodes, d]."""
        ...

    def sign_step(self, step_size: float) -> Step:
        """Return a step towards the largest linear approximation, as FGSM takes it."""
        ...

    def l2_step(self, step_size: float) -> Step:
        """Return a step along the gradient, and back into the set."""
        ...

    def rounded(self, features: Tensor) -> Tensor:
        """Return allowed features [n, d] close to those that a search found."""
        ...


@dataclass(frozen=True)
class Box:
    """All features within one range.

    Attributes:
        limits: lowest and highest value.
    """

    limits: Range

    def zero_start(self, like: Tensor, nodes: int) -> Tensor:
        return zero_start(like, nodes, self.limits)

    def uniform_start(self, like: Tensor, nodes: int, generator: torch.Generator) -> Tensor:
        return uniform_start(like, nodes, self.limits, generator)

    def sign_step(self, step_size: float) -> Step:
        return sign_step(step_size, self.limits)

    def l2_step(self, step_size: float) -> Step:
        return l2_step(step_size, self.limits)

    def rounded(self, features: Tensor) -> Tensor:
        return features.clamp(*self.limits)


@dataclass(frozen=True)
class OneHot:
    r"""Rows with a single 1: the category of a node. (our choice; papers inject into node datasets)

    The search runs in their convex hull, the simplex of rows that are not negative and sum to 1,
    and the largest entry of each row becomes the 1.

    * The sign step is the step that maximises the linear approximation within a box. In the simplex
      that is a vertex, so that the step goes there (Frank & Wolfe 1956):
      :math:`x \leftarrow x + \epsilon (e_c - x)` with :math:`c = \arg\max_j \nabla_j J`.
    * The step along the gradient is projected back on the simplex.
    """

    def zero_start(self, like: Tensor, nodes: int) -> Tensor:
        return like.new_full((nodes, like.shape[1]), 1 / like.shape[1])

    def uniform_start(self, like: Tensor, nodes: int, generator: torch.Generator) -> Tensor:
        return on_simplex(uniform_start(like, nodes, (0.0, 1.0), generator))

    def sign_step(self, step_size: float) -> Step:
        def step(x: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
            length = length_of(scale * step_size, x).clamp(max=1.0)
            return on_simplex(x + length * (self.rounded(gradient) - x))

        return step

    def l2_step(self, step_size: float) -> Step:
        def step(x: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
            along = gradient - gradient.mean(1, keepdim=True)
            direction = F.normalize(along, dim=1, eps=1e-30)
            length = length_of(scale * step_size * math.sqrt(x.shape[1]), x)
            return on_simplex(x + length * direction)

        return step

    def rounded(self, features: Tensor) -> Tensor:
        if not features.numel():
            return features
        return torch.zeros_like(features).scatter_(1, features.argmax(1, keepdim=True), 1.0)


def domain_of(threat: Threat) -> Domain:
    """Return the domain of the injected features of a threat."""
    return OneHot() if threat.one_hot else Box(threat.feature_range)


def on_simplex(rows: Tensor) -> Tensor:
    r"""Project rows float [n, d] on the simplex of rows that are not negative and sum to 1.

    `Efficient Projections onto the l1-Ball <https://doi.org/10.1145/1390156.1390191>`_ (Duchi et
    al. 2008, figure 1).
    """
    ordered = rows.sort(dim=1, descending=True).values
    surplus = ordered.cumsum(1) - 1
    count = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    support_size = (ordered * count > surplus).sum(1, keepdim=True).clamp(min=1)
    shift = surplus.gather(1, support_size - 1) / support_size
    return (rows - shift).clamp(min=0)
