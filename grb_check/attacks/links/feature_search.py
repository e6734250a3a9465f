"""Gradient ascent on the features of injected nodes, their links being fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.links.harmony import homophily_of_features
from grb_check.attacks.links.steps import Step
from grb_check.attacks.names import check_surrogates
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, apply
from grb_check.errors import GradientError, ModelError, UsageError, choose, one_line

LogitsOfFeatures = Callable[[Tensor], Tensor]

# A gain below this part of the objective (of 1 where that is larger) counts as none.
MIN_GAIN = 1e-3


class SearchSettings(Protocol):
    """What the gradient attacks have in common."""

    @property
    def step_size(self) -> float: ...
    @property
    def iterations(self) -> int: ...
    @property
    def patience(self) -> int | None: ...
    @property
    def objective(self) -> str: ...
    @property
    def harmony(self) -> float: ...
    @property
    def surrogates(self) -> tuple[str, ...]: ...
    @property
    def knowledge(self) -> Knowledge: ...


def check_search(settings: SearchSettings) -> None:
    """Refuse settings that no search can have.

    Raises:
        UsageError: names the setting, its value and what is allowed.
    """
    objective_named(settings.objective)
    if settings.iterations < 0:
        raise UsageError(f"iterations is {settings.iterations}, allowed are 0 and more")
    if settings.patience is not None and settings.patience < 1:
        raise UsageError(f"patience is {settings.patience}, allowed are 1 and more, or none")
    if not settings.step_size > 0:
        raise UsageError(f"step_size is {settings.step_size}, allowed is anything above 0")
    if not settings.harmony >= 0:
        raise UsageError(f"harmony is {settings.harmony}, allowed are 0 and more")
    choose("knowledge", settings.knowledge, get_args(Knowledge))
    check_surrogates(settings.surrogates)
    if settings.knowledge == "white-box" and settings.surrogates != ("gcn",):
        raise UsageError(
            f"surrogates is {settings.surrogates!r} with knowledge 'white-box', which attacks the "
            f"model itself; leave one of the two out"
        )


def find_features(
    graph: Data,
    links: Tensor,
    threat: Threat,
    model: DifferentiableModel,
    start: Tensor,
    step: Step,
    settings: SearchSettings,
) -> Tensor:
    """The best features that `maximise` meets for these links.

    Args:
        graph: clean graph, `y` of the targets being the labels to move away from.
        links: `injected_edges` [2, e].
        threat: gives the targets.
        model: the objective is averaged over its members; none is differentiated in its parameters.
        start: float [n, d], features of the injected nodes within their range.
        step: see `maximise`.
        settings: of the attack.

    Returns:
        float32 [n, d].
    """
    maps = logits_of_features(graph, links, threat, model, start.shape[0])
    return best_features(graph, links, threat, maps, start, step, settings)


def best_features(
    graph: Data,
    links: Tensor,
    threat: Threat,
    maps: Sequence[LogitsOfFeatures],
    start: Tensor,
    step: Step,
    settings: SearchSettings,
) -> Tensor:
    """As `find_features`, with what `logits_of_features` has made of model and links."""
    return maximise(
        objective_of_features(graph, links, threat, maps, start.shape[0], settings),
        start,
        step=step,
        iterations=settings.iterations,
        patience=settings.patience,
    )


def logits_of_features(
    graph: Data, links: Tensor, threat: Threat, model: DifferentiableModel, count: int
) -> list[LogitsOfFeatures]:
    """For each member the map from injected features [count, d] to logits [t, c] of the targets."""
    nothing = graph.x.new_zeros((count, graph.x.shape[1]))
    attacked = apply(graph, Perturbation(injected_x=nothing, injected_edges=links))
    return [
        member.with_injected(graph.x, attacked.edge_index, count, threat.targets)
        for member in members(model)
    ]


def objective_of_features(
    graph: Data,
    links: Tensor,
    threat: Threat,
    maps: Sequence[LogitsOfFeatures],
    count: int,
    settings: SearchSettings,
) -> Callable[[Tensor], Tensor]:
    """The map from injected features [count, d] to what an attack maximises (a scalar).

    That is the objective over the targets, and `harmony` times the homophily of the injected nodes:
    the harmonious adversarial objective (HAO; Chen et al. 2022, equation 9).
    """
    labels, objective = graph.y[threat.targets], objective_named(settings.objective)
    homophily = homophily_of_features(graph, links, count) if settings.harmony else None

    def value(features: Tensor) -> Tensor:
        values = [objective(logits_of(features), labels) for logits_of in maps]
        total = torch.stack(values).mean() if len(values) > 1 else values[0]
        return total if homophily is None else total + settings.harmony * homophily(features)

    return value


def maximise(
    value_of: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    step: Step,
    iterations: int,
    patience: int | None,
) -> Tensor:
    """The best of the features met by gradient ascent.

    Args:
        value_of: from features to a scalar.
        start: features [n, d] within their range.
        step: from features and gradient to the next features, within their range.
        iterations: most steps to take.
        patience: stop when that many steps together gained no more than `MIN_GAIN`, relative to
            the objective (or to 1, if that is larger); None: never.

    Returns:
        float32 [n, d] on the device of `start`.

    Raises:
        GradientError: the model gives no gradient.
        ModelError: it gives no finite value.
    """
    features = best = start.detach()
    best_value, milestone, reached = -math.inf, -math.inf, 0
    for iteration in range(iterations + 1):
        features.requires_grad_()
        with torch.enable_grad():
            value = value_of(features)
        score = float(value.detach())
        if not math.isfinite(score):
            msg = f"the model's output gave an objective of {score} at attack step {iteration}"
            raise ModelError(f"{msg}; check it for NaN and infinity on larger graphs")
        if score > best_value:
            best, best_value = features.detach(), score
        if iteration == 0 or score > milestone + MIN_GAIN * max(1.0, abs(milestone)):
            milestone, reached = score, iteration
        elif patience is not None and iteration - reached >= patience:
            break
        if iteration < iterations:
            (gradient,) = gradients(value, features)
            features = step(features.detach(), gradient)
    return best.to(torch.float32)


def gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradient of a scalar with respect to each input; what is not finite in it counts as 0.

    Raises:
        GradientError: there is none, the backward pass fails, or some of it is not finite and all
            the rest is 0.
    """
    found: tuple[Tensor | None, ...] = (None,)
    if value.requires_grad:
        try:
            found = torch.autograd.grad(value, inputs, allow_unused=True)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            msg = (
                f"the model's backward pass fails ({type(error).__name__}: {one_line(error)}); "
                f"make it differentiable with respect to x, or leave the attack out"
            )
            raise GradientError(msg) from error
    if any(gradient is None for gradient in found):
        msg = (
            "the model's output has no gradient with respect to x, which this attack needs; "
            "remove torch.no_grad, detach or numpy from its forward pass, or leave the attack out"
        )
        raise GradientError(msg)
    given = tuple(gradient for gradient in found if gradient is not None)
    if all(bool(each.isfinite().all()) for each in given):
        return given
    finite = tuple(torch.nan_to_num(each, nan=0.0, posinf=0.0, neginf=0.0) for each in given)
    if not any(bool(each.any()) for each in finite):
        msg = (
            "the gradient of the model's output with respect to x is nowhere finite and non-zero; "
            "look in its forward pass for log, sqrt or a division at 0, or leave the attack out"
        )
        raise GradientError(msg)
    return finite
