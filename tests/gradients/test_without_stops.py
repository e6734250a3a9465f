"""Calls in which nothing stops a gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grb_check.gradients.without_stops import has_stops, without_stops


def under_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return 3 * x


@torch.no_grad()
def decorated(x: Tensor) -> Tensor:
    return 3 * x


def under_inference_mode(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return 3 * x


def not_enabled(x: Tensor) -> Tensor:
    with torch.set_grad_enabled(False):
        return 3 * x


def frozen(x: Tensor) -> Tensor:
    result = (3 * x).detach()
    result.requires_grad = False
    return result.requires_grad_(False)


STOPS: dict[str, Callable[[Tensor], Tensor]] = {
    "no_grad": under_no_grad,
    "decorator": decorated,
    "inference_mode": under_inference_mode,
    "set_grad_enabled": not_enabled,
    "requires_grad": frozen,
    "method": lambda x: (3 * x).detach(),
    "function": lambda x: torch.detach(3 * x),
    "data": lambda x: (3 * x).data,
    "in-place": lambda x: (3 * x).detach_(),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_a_stop_has_no_effect_inside_and_its_own_outside(stop: Callable[[Tensor], Tensor]) -> None:
    """The value is the same."""
    x = torch.tensor([2.0], requires_grad=True)
    with without_stops():
        inside = stop(x)
    assert torch.autograd.grad(inside, x)[0] == 3
    assert inside == 6
    assert has_stops(lambda: stop(x))
    assert not stop(x).requires_grad
    assert torch.is_grad_enabled()
    with torch.inference_mode():
        assert not (3 * x).requires_grad


@pytest.mark.parametrize(
    "call",
    [
        lambda x: 3 * x,
        lambda x: torch.ones(1).detach() * x,  # without a gradient to stop
        lambda x: torch.set_grad_enabled(True) and x,
    ],
    ids=["none", "constant", "enabled"],
)
def test_what_stops_nothing_is_no_stop(call: Callable[[Tensor], Tensor]) -> None:
    assert not has_stops(lambda: call(torch.ones(1, requires_grad=True)))


def test_everything_is_as_before_after_an_error() -> None:
    def fails() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        has_stops(fails)
    x = torch.ones(1, requires_grad=True)
    assert not x.detach().requires_grad
    assert not under_inference_mode(x).requires_grad
