"""Tests of the objectives."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.objectives import (
    OBJECTIVES,
    clipped_likelihood,
    held_margin,
    margin,
    objective_named,
    probability_margin,
    tanh_margin,
)
from grb_check.errors import UsageError


def test_tanh_margin_by_hand() -> None:
    """Mean of tanh(best other logit - own logit)."""
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 0.5, 2.0]])
    expected = (math.tanh(1 - 3) + math.tanh(2 - 0.5)) / 2
    assert math.isclose(expected, float(tanh_margin(logits, torch.tensor([0, 1]))), rel_tol=1e-6)


def test_margin_by_hand() -> None:
    """Mean of the best other logit minus the own; misclassified targets count alike."""
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 0.5, 2.0]])
    assert float(margin(logits, torch.tensor([0, 1]))) == (1 - 3 + 2 - 0.5) / 2


def test_probability_margin_by_hand() -> None:
    """Mean of the best other probability minus the own; a factor on logits keeps its sign."""
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]).log() + 3
    result = probability_margin(logits, torch.tensor([0, 1]))
    assert math.isclose((0.3 - 0.5 + 0.7 - 0.2) / 2, float(result), rel_tol=1e-5)


OF_THE_HELD = ("held_margin", "masked_cross_entropy")
# Margins of -2, -1 and -4 where the target is held, 1.5 and 3 where it is lost.
LOGITS = torch.tensor([[2.0, 0.0], [1.0, 0.0], [4.0, 0.0], [0.0, 1.5], [0.0, 3.0]])
LABELS = torch.zeros(5, dtype=torch.int64)


def test_held_margin_by_hand() -> None:
    """In units of 0.7 times the median margin of held targets, 2; others count 0."""
    expected = sum(math.tanh(-size / 1.4) for size in (2, 1, 4)) / 5
    assert math.isclose(expected, float(held_margin(LOGITS, LABELS)), rel_tol=1e-6)


@given(st.floats(-6, 6), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_held_margin_does_not_depend_on_the_scale_of_logits(power, seed) -> None:
    """With no, some or all targets held."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((6, 3), generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (6,), generator=generator)
    values = [float(held_margin(logits * scale, labels)) for scale in (1.0, 10.0**power)]
    assert math.isclose(*values, rel_tol=1e-9)


@pytest.mark.parametrize("name", OF_THE_HELD)
def test_a_lost_target_draws_no_gradient(name: str) -> None:
    """Held targets have one; with none held there is no gradient, and the value is finite."""
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective_named(name)(logits, LABELS), logits)
    assert gradient[:3].all()
    assert not gradient[3:].any()
    lost = LOGITS[3:].clone().requires_grad_()
    value = objective_named(name)(lost, LABELS[3:])
    (gradient,) = torch.autograd.grad(value, lost)
    assert value == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("name", OF_THE_HELD)
def test_of_the_held_those_close_to_the_boundary_are_pushed_most(name: str) -> None:
    """More confident targets have smaller gradients."""
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective_named(name)(logits, LABELS), logits)
    two, one, four = gradient[:3, 1].tolist()
    assert one > two > four > 0


def test_clipped_likelihood_by_hand() -> None:
    """-(4 + ln p)^2; a target whose label has a probability below exp(-4) has no gradient."""
    lost = math.exp(-5)
    logits = torch.tensor([[0.5, 0.5], [lost, 1 - lost]]).log().requires_grad_()
    value = clipped_likelihood(logits, torch.tensor([0, 0]))
    assert math.isclose(-((4 + math.log(0.5)) ** 2) / 2, float(value.detach()), rel_tol=1e-5)
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient[0].all()
    assert not gradient[1].any()


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in OF_THE_HELD])
def test_objective_rises_as_a_target_is_lost(name: str) -> None:
    """More for another class or less for the own one raises the objective."""
    label = torch.tensor([0])
    values = [
        float(objective_named(name)(torch.tensor([[1.0 - shift, shift]]), label))
        for shift in (-1.0, 0.0, 0.5, 1.0, 2.0)
    ]
    assert sorted(values) == values
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_one_class_gives_finite_value_and_gradient(name: str) -> None:
    """With a single class nothing can be misclassified, and nothing fails."""
    logits = torch.tensor([[1.0], [2.0]], requires_grad=True)
    value = objective_named(name)(logits, torch.tensor([0, 0]))
    value.backward()
    assert value.isfinite()
    assert torch.equal(torch.zeros(2, 1), logits.grad)


def test_unknown_objective_lists_the_known() -> None:
    """A misspelt objective is a usage error."""
    with pytest.raises(UsageError, match="objective 'ce'; allowed: tanh_margin, held_margin, "):
        InjectionFgsm(objective="ce")
