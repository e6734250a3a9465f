"""Slopes by two backward passes are those of one for each value, or there are none."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grb_check.gradients.slopes import slopes_along


def one_by_one(values: Tensor, inputs: Tensor, direction: Tensor) -> Tensor:
    gradients = [
        torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)[0]
        for value in values
    ]
    return torch.stack(
        [values.new_zeros(()) if g is None else (g * direction).sum() for g in gradients]
    )


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 999), count=st.integers(1, 6))
def test_slopes_are_those_of_each_value(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    inputs, direction, weight = (
        torch.randn(4, 3, dtype=torch.float64, generator=generator) for _ in range(3)
    )
    inputs.requires_grad_()
    hidden = torch.relu(inputs @ weight.T).softmax(1)
    values = (hidden * inputs.sum(1, keepdim=True)).flatten()[:count]
    slopes = slopes_along(values, inputs, direction)
    assert slopes is not None
    torch.testing.assert_close(slopes, one_by_one(values, inputs, direction))


def test_values_without_a_gradient_have_the_slope_0() -> None:
    inputs = torch.tensor([1.0, 2.0], requires_grad=True)
    values = torch.stack([inputs[0] ** 2, inputs[1].detach()])
    slopes = slopes_along(values, inputs, torch.ones(2))
    assert slopes is not None
    assert slopes.tolist() == [2.0, 0.0]


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


class _Detached(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient.detach()


def test_a_backward_pass_that_has_none_itself_has_no_slopes() -> None:
    """Whether it says so or not: of a part of the values the slope would be missing."""
    inputs = torch.tensor([1.0, 2.0], requires_grad=True)
    for function in (_Once, _Detached):
        doubled = function.apply(inputs)  # type: ignore[no-untyped-call]
        assert slopes_along(doubled, inputs, torch.ones(2)) is None
        assert slopes_along(torch.stack([doubled[0], inputs[1]]), inputs, torch.ones(2)) is None


def test_values_of_other_inputs_have_no_slopes() -> None:
    inputs, others = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert slopes_along(2 * others, inputs, torch.ones(2)) is None
