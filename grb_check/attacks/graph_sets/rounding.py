"""The resolution of gains: differences that rounding makes are none."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

ROUNDINGS: Final = 8  # units in the last place, the error of sums of some hundred products


def rounding_step(scale: Tensor) -> Tensor:
    """Return the resolution of gains that are sums of terms of this size.

    Gains of flips that are equivalent by symmetry differ in their last bits, and a flip without
    effect has a gain of about 1e-8, of either sign, instead of 0; these bits depend on the
    processor. As multiples of a step such gains are equal, or 0, on (nearly) all processors, unless
    a gain happens to lie between two multiples.

    Args:
        scale: float [...], finite, the size of the terms, or of the largest gain if unknown.

    Returns:
        float [...], a power of two, so that its multiples are exact; at least `ROUNDINGS` units in
        the last place of `scale`.
    """
    _, exponent = torch.frexp(scale.clamp(min=1e-30))
    return torch.ldexp(torch.full_like(scale, ROUNDINGS * torch.finfo(scale.dtype).eps), exponent)


def quantised(gains: Tensor, scale: Tensor) -> Tensor:
    """Round gains [...] to multiples of the step for their scale [...]."""
    step = rounding_step(scale)
    return (gains / step).round() * step
