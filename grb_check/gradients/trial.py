"""Whether a faster or differentiable form of a model gives what the model itself gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.user_code.randomness import isolated_randomness

TOLERANCE: Final = 1e-4  # relative to the largest output
NOISE: Final = 1e-5  # relative error that rounding may cause
KINKS: Final = 1e-2  # relative error of gradients, which jump at the kinks of a ReLU


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a form of a model to the inputs of a trial.

    Attributes:
        outputs: float, of any shape.
        gradient: of one output along a random direction, times the width of the inputs' range, so
            that it is of an output's size; None if it has none or is not compared.
    """

    outputs: tuple[Tensor, ...]
    gradient: Tensor | None = None


def agrees(candidate: Answers, reference: Answers, clean: Tensor, *, kinks: float = KINKS) -> bool:
    """Return whether a candidate's answers are the model's own, but for rounding.

    Outputs may be apart by more than what rounding causes, and by much less than what the inputs of
    the trial change: a candidate that misses the change fails.

    Args:
        candidate: answers of a form of the model.
        reference: of the model itself.
        clean: its output before the change, of the shape of each output.
        kinks: relative error that gradients may have.
    """
    scale = max((_largest(output) for output in reference.outputs), default=0.0) or 1.0
    change = max((distance(output, clean) for output in reference.outputs), default=0.0)
    allowed = scale * min(TOLERANCE, max(NOISE, 0.1 * change / scale))
    for output, expected in zip(candidate.outputs, reference.outputs, strict=True):
        if not distance(output, expected) <= allowed:
            return False
    if reference.gradient is None:
        return True
    if candidate.gradient is None:
        return False
    error = float((candidate.gradient - reference.gradient).norm())
    return error <= kinks * float(reference.gradient.norm()) + NOISE * scale


def distance(first: Tensor, second: Tensor) -> float:
    """Return the largest difference; infinite for other shapes, and where the first is not."""
    if first.shape != second.shape or not bool(torch.isfinite(first).all()):
        return float("inf")
    return _largest(first - second)


def along_direction(
    forward: Callable[[Tensor], Tensor], at: Tensor, seed: int
) -> tuple[Tensor, Tensor | None]:
    """Return an output, and its gradient in `at` along a random direction, if it has one.

    Softmax outputs have a constant sum, whose gradient would say nothing.

    Args:
        forward: the map.
        at: its input.
        seed: of the module's own randomness.
    """
    inputs = at.clone().requires_grad_()
    with torch.enable_grad(), isolated_randomness(seed):
        output = forward(inputs)
    if not output.requires_grad:
        return output, None
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    (gradient,) = torch.autograd.grad(output, inputs, direction, allow_unused=True)
    return output.detach(), gradient


def _largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def fixed_noise(shape: Sequence[int], like: Tensor) -> Tensor:
    """Return standard normal numbers, the same on each call."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(tuple(shape), generator=generator).to(like)
