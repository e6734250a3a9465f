"""The gradient ascent, and the attacks that use it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import LinearModel, graph_of

from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.rnd import InjectionRnd
from grb_check.attacks.injection.shared.feature_search import gradients, maximise
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import GradientError, ModelError

GRADIENT_ATTACKS = [InjectionFgsm, InjectionPgd]
MODEL = LinearModel(6, 3, seed=5)


def ring(num_nodes: int = 12):
    """A ring whose labels are the model's own predictions, as an attack receives them."""
    x = torch.rand((num_nodes, 6), generator=torch.Generator().manual_seed(2)) - 0.5
    graph = graph_of(num_nodes, [(i, i + 1) for i in range(num_nodes - 1)], x=x)
    graph.y = MODEL(graph.x, graph.edge_index).argmax(1)
    return graph


def threat_of(**changes) -> Threat:
    settings = {
        "scenario": "injection",
        "targets": torch.arange(0, 12, 2),
        "injected_nodes": 3,
        "edges_per_injected_node": 2,
        "feature_range": (-0.25, 0.75),
    }
    return Threat(**(settings | changes))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def value_after(attack, graph, threat: Threat, seed: int, objective: str) -> float:
    perturbation = attack.perturb(graph, threat, MODEL, generator(seed))
    result = apply(graph, perturbation)
    logits = MODEL(result.x, result.edge_index)[threat.targets]
    return float(objective_named(objective)(logits, graph.y[threat.targets]))


def counting(value_of):
    calls = []

    def counted(features):
        value = value_of(features)
        calls.append(float(value.detach()))
        return value

    return calls, counted


def test_ascent_finds_the_top_of_a_parabola() -> None:
    """Ascent from 0 along the gradient reaches the maximum at 0.3."""
    best = maximise(
        lambda x: -((x - 0.3) ** 2).sum(),
        torch.zeros(1, 4),
        step=lambda x, gradient, scale: x + 0.1 * gradient,
        iterations=200,
        patience=None,
    )
    assert torch.allclose(torch.full((1, 4), 0.3), best, atol=1e-4)


@given(
    values=st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=40),
    patience=st.one_of(st.none(), st.integers(1, 6)),
)
def test_search_ends_by_the_documented_rule_with_the_best_it_met(values, patience) -> None:
    """Steps along a list of values; gains of 1 always count, as the values stay below 1,000."""
    calls, value_of = counting(lambda x: torch.tensor(values)[int(x.detach())] + 0 * x.sum())
    best = maximise(
        value_of,
        torch.zeros(1, 1),
        step=lambda x, gradient, scale: x + 1,
        iterations=len(values) - 1,
        patience=patience,
    )
    stop = len(values)
    if patience is not None:
        peaks = [max(values[: i + 1]) for i in range(len(values))]
        idle = (i for i in range(patience, len(values)) if peaks[i] == peaks[i - patience])
        stop = next(idle, len(values) - 1) + 1
    assert calls == values[:stop]
    assert best.item() == calls.index(max(calls))


@pytest.mark.parametrize("attack", GRADIENT_ATTACKS)
@pytest.mark.parametrize("cut", ["detach", "parameters only"])
def test_model_without_gradient_is_named_as_the_cause(attack, cut) -> None:
    """An output detached from x is a model error that says what to do, not torch's own."""
    weight = torch.ones((6, 3), requires_grad=True)

    class Cut:
        def with_injected(self, x, edge_index, count, targets):
            logits_of = MODEL.with_injected(x, edge_index, count, targets)
            if cut == "detach":
                return lambda injected: logits_of(injected).detach()
            return lambda injected: (torch.cat([x, injected.detach()]) @ weight)[targets]

    with pytest.raises(ModelError, match="no gradient with respect to x"):
        attack().perturb(ring(), threat_of(), Cut(), generator())


@pytest.mark.parametrize("attack", GRADIENT_ATTACKS)
def test_model_that_returns_nan_is_named_as_the_cause(attack) -> None:
    """NaN in the output stops the attack with a model error."""

    class Broken:
        def with_injected(self, x, edge_index, count, targets):
            return lambda injected: torch.cat([x, injected])[targets, :3] * math.nan

    with pytest.raises(ModelError, match="objective of nan at attack step 0"):
        attack().perturb(ring(), threat_of(), Broken(), generator())


@pytest.mark.parametrize("objective", ["tanh_margin", "cross_entropy"])
@pytest.mark.parametrize("attack", GRADIENT_ATTACKS)
def test_gradient_attack_beats_random_features(attack, objective) -> None:
    """For each of 3 seeds, on a fixed graph, the objective ends above that of RND."""
    graph, threat = ring(), threat_of(injected_nodes=6)
    for seed in range(3):
        random = value_after(InjectionRnd(), graph, threat, seed, objective)
        optimised = value_after(
            attack(objective=objective, iterations=100), graph, threat, seed, objective
        )
        assert optimised > random


def test_cross_entropy_on_a_linear_model_ends_where_brute_force_does() -> None:
    """One target, one injected node, two classes: the best features are a corner, by sign."""
    model = LinearModel(6, 2, seed=1)
    graph = graph_of(2, [(0, 1)], x=torch.zeros(2, 6), y=torch.tensor([0, 1]))
    threat = threat_of(targets=torch.tensor([0]), injected_nodes=1, edges_per_injected_node=1)
    corners = torch.cartesian_prod(*[torch.tensor([-0.25, 0.75])] * 6)
    links = torch.tensor([[0], [0]])

    def value_of(corner: torch.Tensor) -> float:
        result = apply(graph, Perturbation(injected_x=corner[None], injected_edges=links))
        logits = model(result.x, result.edge_index)[threat.targets]
        return float(objective_named("cross_entropy")(logits, graph.y[threat.targets]))

    best = max(corners, key=value_of)
    for attack in GRADIENT_ATTACKS:
        settings = attack(objective="cross_entropy", step_size=0.05, patience=None)
        features = settings.perturb(graph, threat, model, generator()).injected_x
        assert torch.allclose(best[None], features)


def test_pgd_steps_have_the_same_length_at_each_node() -> None:
    """From a uniform start within the range, one step has root mean square 0.01 at each node."""
    wide = threat_of(feature_range=(-50.0, 50.0))
    start, one = (
        InjectionPgd(iterations=n, objective="cross_entropy")
        .perturb(ring(), wide, LinearModel(6, 3), generator())
        .injected_x.double()
        for n in (0, 1)
    )
    assert start.min() < -25 < 25 < start.max()
    length = (one - start).pow(2).mean(1).sqrt()
    assert torch.allclose(torch.full((3,), 0.01, dtype=torch.float64), length, atol=1e-5)


def test_non_finite_gradients_count_as_zero() -> None:
    """sqrt has an infinite slope at 0, times 0 gives NaN; other entries are used."""
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    (gradient,) = gradients(x.sqrt().sum(), x)
    assert torch.equal(gradient, torch.tensor([0.0, 0.25]))
    (gradient,) = gradients((x * 0).sum(), x)  # all targets may be lost
    assert not gradient.any()
    zero = torch.zeros(2, requires_grad=True)
    with pytest.raises(GradientError, match="nowhere finite and non-zero"):
        gradients(zero.sqrt().sum(), zero)


def test_a_backward_pass_that_fails_is_a_missing_gradient() -> None:
    """Whatever exception torch raises."""
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    value = y.sum()
    with torch.no_grad():
        y.mul_(2)  # autograd needs what it was
    with pytest.raises(GradientError, match="backward pass fails") as caught:
        gradients(value, x)
    assert isinstance(caught.value.__cause__, RuntimeError)
