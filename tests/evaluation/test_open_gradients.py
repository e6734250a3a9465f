"""Whose gradients an attack follows: the victim's, or those of its forward without stops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from trial_spies import DATASET, Linear, Spy, trial

from grb_check.evaluation.open_gradients import followed, without_steps
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN


class Forward(nn.Module):
    """Calls a function with the mean of each node's and its neighbours' rows."""

    def __init__(self, function: Callable[[nn.Module, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other = Linear().layer, nn.Linear(8, 3)
        self.function = function

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        total = x.index_add(0, edge_index[0], x[edge_index[1]])
        degrees = 1 + torch.bincount(edge_index[0], minlength=x.shape[0])
        return self.function(self, x, total / degrees[:, None])


def plain(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return model.layer(mean)


def detached(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return model.layer(x) + model.layer(mean).detach()


def decoy(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    with torch.no_grad():
        value = model.layer(mean)
    other = model.other(mean)
    return value + other - other.detach()


def maximum(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    logits = model.layer(mean)
    return (logits - logits.detach().amax(1, keepdim=True)).exp().log()


def straight_through(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    logits = model.layer(mean)
    return logits + (logits.mul(8).round() / 8 - logits).detach()


def rounded(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    with torch.no_grad():
        return model.layer(mean.mul(8).round() / 8).mul(8).floor()


def labels(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return torch.eye(3)[model.layer(mean).argmax(dim=-1)]


def probabilities(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return (1e6 * model.layer(mean)).softmax(1)


def thresholds(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return model.layer((mean > 0.1).to(torch.float32).detach())


def of_own_rows(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return model.layer(x.round())


def through_numpy(model: Forward, x: Tensor, mean: Tensor) -> Tensor:
    return model.layer(mean) + torch.from_numpy(mean.detach().numpy())[:, :3]


@pytest.mark.parametrize(
    ("function", "opened"),
    [
        (plain, False),
        (detached, True),
        (decoy, True),
        (maximum, False),
        (straight_through, False),
        (through_numpy, False),
    ],
)
def test_the_gradient_is_that_of_the_values(function: Callable[..., Tensor], opened: bool) -> None:
    """Where what stops it makes a difference, and the module can be called without."""
    module = Forward(function).eval().requires_grad_(False)
    victim = Victim(Adapter(module, "forward", PLAIN), 3)
    model = TrainedModel(victim, predict(victim, DATASET.graph, 0))
    given = trial(Spy())
    shown = Spy().perturb(DATASET.graph, given.threat, victim, torch.Generator().manual_seed(0))
    attacked = followed(given, model, [shown], "features")
    assert (attacked is not model) == opened
    if opened:
        assert followed(given, model, [shown], "features") is attacked
        assert isinstance(attacked.victim, Victim)
        graph = DATASET.graph
        values = (m.victim(graph.x, graph.edge_index) for m in (model, attacked))
        assert torch.allclose(*values)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (rounded, True),
        (labels, True),
        (thresholds, True),
        (probabilities, True),
        (plain, False),
        (detached, False),
        (of_own_rows, False),
        (through_numpy, False),
    ],
)
def test_a_model_with_steps_is_followed_without_them(
    function: Callable[..., Tensor], found: bool
) -> None:
    """If injected features have a gradient then; what stops gradients has no effect either."""
    module = Forward(function).eval().requires_grad_(False)
    victim = Victim(Adapter(module, "forward", PLAIN), 3)
    model = TrainedModel(victim, predict(victim, DATASET.graph, 0))
    given = trial(Spy())
    shown = Spy().perturb(DATASET.graph, given.threat, victim, torch.Generator().manual_seed(0))
    assert (without_steps(given, model, [shown]) is not None) == found
