"""Step functions, and the gradients that stand for theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grb_check.gradients.straight_through import has_steps, straight_through

STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "round": torch.round,
    "floor": lambda x: x.floor(),
    "sign": torch.sign,
    "greater": lambda x: (x > 0.1).float(),
    "less": lambda x: 1.0 - (x <= 0.1).to(torch.float32),
    "other type": lambda x: 1.0 - x.lt(0.1).type_as(x),
    "integers": lambda x: (x * 8).to(torch.int8).float() / 8,
    "above no bound": lambda x: (x > torch.tensor([-torch.inf, 0.1]).repeat(20)).float(),
    "buckets": lambda x: torch.bucketize(x, torch.linspace(-1, 1, 5)).float(),
}
SATURATED: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: (1e4 * torch.stack([x, -x], dim=1)).softmax(1)[:, 0],
    "sigmoid": lambda x: (1e4 * x).sigmoid(),
    "tanh": lambda x: torch.tanh(1e4 * x),
}
SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "mask": lambda x: torch.relu(x)[x > 0],
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "softmax": lambda x: torch.stack([x, -x], dim=1).softmax(1),
    "other floats": lambda x: x.double().to(torch.float32).tanh(),
    "indices": lambda x: x[torch.arange(4).to(torch.int32).long()],
}


def points() -> Tensor:
    return torch.linspace(-2, 2, 40).requires_grad_()


@pytest.mark.parametrize("step", STEPS)
def test_a_step_keeps_its_values_and_has_a_gradient(step: str) -> None:
    """Where the values rise, the gradient is positive everywhere."""
    x, function = points(), STEPS[step]
    with straight_through():
        values = function(x)
    assert torch.equal(values, function(x.detach()))
    gradient = torch.autograd.grad(values.sum(), x)[0]
    assert (gradient[1::2] > 0).all()
    assert (gradient >= 0).all()
    assert has_steps(lambda: function(x))


@pytest.mark.parametrize("name", SATURATED)
def test_what_saturates_is_replaced_by_what_does_not(name: str) -> None:
    """In the same order, at the same side of its middle."""
    x, function = points(), SATURATED[name]
    assert not torch.autograd.grad(function(x).sum(), x)[0].any()
    with straight_through():
        values = function(x)
    assert (torch.autograd.grad(values.sum(), x)[0] > 0).all()
    assert (values.diff() > 0).all()
    middle = float(function(torch.zeros(1)))
    assert torch.equal(values > middle, x > 0)


@pytest.mark.parametrize("name", SMOOTH)
def test_all_else_stays(name: str) -> None:
    x, function = points(), SMOOTH[name]
    with straight_through():
        values = function(x)
    assert torch.equal(values, function(x))
    given, own = (torch.autograd.grad(made.sum(), x)[0] for made in (values, function(x)))
    assert torch.equal(given, own)
    assert not has_steps(lambda: function(x))
