"""The effect of each part of a perturbation, to first order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import model_on
from grb_check.attacks.threat import Perturbation, apply, numbers_after
from grb_check.errors import ModelError
from grb_check.failures.replay import Replay
from grb_check.user_code.randomness import isolated_randomness

STEPS: Final = (0.0, 0.5, 1.0)  # from the clean to the attacked graph


@dataclass(frozen=True, eq=False)
class Effects:
    """Return how much each part raises the margins by which targets are lost.

    Attributes:
        added: float [a], of added edges.
        removed: float [r], of removed edges.
        links: float [e], of injected edges.
        features: float [m], of modified nodes.
    """

    added: Tensor
    removed: Tensor
    links: Tensor
    features: Tensor


def effects(replay: Replay, perturbation: Perturbation) -> Effects:
    """Return the share of each part in the effect of the perturbation.

    Gradients in the weights of its edges and in its features, at a few points between the clean and
    the attacked graph, as in `Axiomatic Attribution for Deep Networks
    <https://arxiv.org/abs/1703.01365>`_ (Sundararajan et al. 2017, equation 1). All effects are 0
    if the model takes no edge weights or gives no gradient.
    """
    sizes = [
        perturbation.added_edges.shape[1],
        perturbation.removed_edges.shape[1],
        perturbation.injected_edges.shape[1],
    ]
    with isolated_randomness(replay.seed):  # a victim may draw in its forward
        try:
            objective = _objective(replay)
            edges = _of_edges(replay, perturbation, objective)
            features = _of_features(replay, perturbation, objective)
        except (ModelError, RuntimeError):  # torch's, for lack of memory or of a derivative
            edges, features = None, None
    if edges is None or features is None:
        edges = torch.zeros(sum(sizes))
        features = torch.zeros(perturbation.modified_nodes.numel())
    added, removed, links = torch.split(edges, sizes)
    return Effects(added, -removed, links, features)


def _objective(replay: Replay) -> Callable[[Tensor], Tensor]:
    """A smooth count of lost targets from their logits [t, c], scaled by the clean margins."""
    graph, victim = replay.graph, replay.model.victim
    targets = replay.targets.to(graph.x.device)
    classes = replay.classes.to(graph.x.device)
    with torch.no_grad():
        clean = margins_of(victim(graph.x, graph.edge_index)[targets], classes)
        scale = clean.abs().median().clamp(min=1e-12)
    return lambda logits: (margins_of(logits, classes) / scale).tanh().sum()


def _of_edges(
    replay: Replay, perturbation: Perturbation, objective: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """The gradient [a + r + e] in the weights of all changed edges, summed over the steps."""
    graph, device = replay.graph, replay.graph.x.device
    attacked, number = apply(graph, perturbation), numbers_after(graph, perturbation)
    new, other = perturbation.injected_edges
    links = torch.stack([new + graph.num_nodes, other]).sort(dim=0).values
    pairs = torch.cat([perturbation.added_edges, perturbation.removed_edges, links], dim=1)
    if not pairs.shape[1]:
        return torch.zeros(0)
    logits_of = model_on(replay.model.victim, attacked).with_pairs(
        attacked.x,
        number[graph.edge_index],
        number[pairs.to(device)].sort(dim=0).values,
        replay.targets.to(device),
    )
    if logits_of is None:
        return None
    removed = torch.zeros(pairs.shape[1], dtype=torch.bool)
    first = perturbation.added_edges.shape[1]
    removed[first : first + perturbation.removed_edges.shape[1]] = True
    total = torch.zeros(pairs.shape[1])
    for step in STEPS:
        weights = torch.where(removed, 1.0 - step, step).to(device).requires_grad_()
        (gradient,) = torch.autograd.grad(objective(logits_of(weights)), weights)
        total += gradient.cpu()
    return total.nan_to_num()


def _of_features(
    replay: Replay, perturbation: Perturbation, objective: Callable[[Tensor], Tensor]
) -> Tensor:
    """The effect of each modified node [m], on the clean and on the attacked graph."""
    nodes = perturbation.modified_nodes.to(replay.graph.x.device)
    total = torch.zeros(nodes.numel())
    if not nodes.numel():
        return total
    attacked = apply(replay.graph, perturbation)
    change = attacked.x[nodes] - replay.graph.x[nodes]
    targets = replay.targets.to(nodes.device)
    for graph in (replay.graph, attacked):
        x = graph.x.clone().requires_grad_()
        logits = model_on(replay.model.victim, graph)(x, graph.edge_index)
        value = objective(logits[targets])
        (gradient,) = torch.autograd.grad(value, x)
        total += (gradient[nodes] * change).sum(1).cpu()
    return total.nan_to_num()
