"""Gradient ascent on the features of injected nodes, their links being fixed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.objectives import Objective
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import ModelError

# A gain below this part of the objective (of 1 where that is larger) counts as none.
MIN_GAIN = 1e-4


def objective_of_features(
    graph: Data,
    links: Tensor,
    threat: Threat,
    model: DifferentiableModel,
    objective: Objective,
) -> Callable[[Tensor], Tensor]:
    """The map from injected features [n, d] to the objective over the targets (a scalar).

    Args:
        graph: clean graph, `y` of the targets being the labels to move away from.
        links: `injected_edges` [2, e].
        threat: gives the targets and n.
        model: its parameters are not differentiated; graph and clean features are fixed once.
        objective: of logits [t, c] and labels [t].
    """
    nothing = graph.x.new_zeros((threat.injected_nodes, graph.x.shape[1]))
    attacked = apply(graph, Perturbation(injected_x=nothing, injected_edges=links))
    logits_of = model.with_injected(graph.x, attacked.edge_index, threat.injected_nodes)
    targets = threat.targets.to(graph.x.device)
    labels = graph.y[targets]

    def value(features: Tensor) -> Tensor:
        return objective(logits_of(features)[targets], labels)

    return value


def maximise(
    value_of: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    step: Callable[[Tensor, Tensor], Tensor],
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
        float32 [n, d] on the CPU.

    Raises:
        ModelError: the model gives no gradient or no finite value.
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
            features = step(features.detach(), _gradient(value, features))
    return best.to("cpu", torch.float32)


def _gradient(value: Tensor, features: Tensor) -> Tensor:
    gradient = None
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(value, features, allow_unused=True)
    if gradient is None:
        msg = (
            "the model's output has no gradient with respect to x, which this attack needs; "
            "remove torch.no_grad, detach or numpy from its forward pass, or leave the attack out"
        )
        raise ModelError(msg)
    return gradient
