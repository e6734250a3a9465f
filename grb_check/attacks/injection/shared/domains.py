"""Domains of injected features: where a search starts, which steps it takes, and how it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.injection.shared.steps import (
    Range,
    Scale,
    Step,
    l2_step,
    length_of,
    sign_step,
    uniform_start,
    zero_start,
)
from grb_check.attacks.threat import Threat


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
    """All features within the range of a threat, and within its limits by column.

    Attributes:
        threat: has them.
    """

    threat: Threat

    @property
    def limits(self) -> Range:
        """Lowest and highest value."""
        return self.threat.feature_range

    def zero_start(self, like: Tensor, nodes: int) -> Tensor:
        return zero_start(like, nodes, self.limits)

    def uniform_start(self, like: Tensor, nodes: int, generator: torch.Generator) -> Tensor:
        return uniform_start(like, nodes, self.limits, generator)

    def sign_step(self, step_size: float) -> Step:
        return sign_step(step_size, self.limits)

    def l2_step(self, step_size: float) -> Step:
        return l2_step(step_size, self.limits)

    def rounded(self, features: Tensor) -> Tensor:
        return self.threat.nearest(features)


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
    return OneHot() if threat.one_hot else Box(threat)


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
