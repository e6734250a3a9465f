"""The least difference between two gains that is more than rounding."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

ROUNDINGS: Final = 8  # of the dtype, which sums of some hundred products come to


def rounding_step(scale: Tensor) -> Tensor:
    """What gains made of terms of this size are told apart by, at least `ROUNDINGS` last bits.

    Flips that do the same by symmetry have gains that differ in their last bits, and a flip that
    does nothing has one of about 1e-8 instead of 0, of either sign; which bits these are depends on
    the processor. As multiples of a step such gains are equal, and 0, on (nearly) all of them: a
    gain would have to lie between two multiples by chance.

    Args:
        scale: float [...], finite, the size of the terms, or of the largest gain where no more is
            known.

    Returns:
        float [...], a power of two, so that multiples of it are exact.
    """
    _, exponent = torch.frexp(scale.clamp(min=1e-30))
    return torch.ldexp(torch.full_like(scale, ROUNDINGS * torch.finfo(scale.dtype).eps), exponent)


def quantised(gains: Tensor, scale: Tensor) -> Tensor:
    """Gains [...] as the nearest multiples of the step that follows from their scale [...]."""
    step = rounding_step(scale)
    return (gains / step).round() * step
