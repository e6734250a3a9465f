"""What each part of a perturbation does to a victim, to first order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.objectives import margins_of
from grb_check.attacks.threat import Perturbation, apply
from grb_check.errors import ModelError
from grb_check.evaluation.before_and_after import Scene
from grb_check.user_code.randomness import isolated_randomness

STEPS: Final = (0.0, 0.5, 1.0)  # from the clean to the attacked graph


@dataclass(frozen=True, eq=False)
class Effects:
    """By how much each part raises the margins by which targets are lost; larger does more.

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


def effects(scene: Scene, perturbation: Perturbation) -> Effects:
    """Each part's share in what the perturbation does.

    Gradients in the weights of its edges and in its features, at a few points between the clean and
    the attacked graph, as in `Axiomatic Attribution for Deep Networks
    <https://arxiv.org/abs/1703.01365>`_ (Sundararajan et al. 2017, equation 1). Where the model
    takes no weights of edges, or gives no gradient, how close a part is to the targets whose class
    changes tells instead.
    """
    with isolated_randomness(scene.seed):  # a victim may draw in its forward
        try:
            found = _by_gradient(scene, perturbation)
        except (ModelError, RuntimeError):  # torch's, for want of memory or of a derivative
            found = None
    return found or _by_closeness(scene, perturbation)


def _by_gradient(scene: Scene, perturbation: Perturbation) -> Effects | None:
    objective = _objective(scene)
    edges = _of_edges(scene, perturbation, objective)
    if edges is None:
        return None
    sizes = [
        perturbation.added_edges.shape[1],
        perturbation.removed_edges.shape[1],
        perturbation.injected_edges.shape[1],
    ]
    added, removed, links = torch.split(edges, sizes)
    return Effects(added, -removed, links, _of_features(scene, perturbation, objective))


def _objective(scene: Scene) -> Callable[[Tensor], Tensor]:
    """A smooth count of lost targets, from their logits [t, c]; the scale is of clean margins."""
    graph, victim = scene.graph, scene.ready.victim
    targets = scene.targets.to(graph.x.device)
    classes = scene.classes.to(graph.x.device)
    with torch.no_grad():
        clean = margins_of(victim(graph.x, graph.edge_index)[targets], classes)
        scale = clean.abs().median().clamp(min=1e-12)
    return lambda logits: (margins_of(logits, classes) / scale).tanh().sum()


def _of_edges(
    scene: Scene, perturbation: Perturbation, objective: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """The gradient [a + r + e] in the weights of all changed edges, over the way."""
    graph, device = scene.graph, scene.graph.x.device
    x = apply(graph, perturbation).x
    new, other = perturbation.injected_edges
    links = torch.stack([new + graph.num_nodes, other]).sort(dim=0).values
    pairs = torch.cat([perturbation.added_edges, perturbation.removed_edges, links], dim=1)
    if not pairs.shape[1]:
        return torch.zeros(0)
    logits_of = scene.ready.victim.with_pairs(
        x, graph.edge_index, pairs.to(device), scene.targets.to(device)
    )
    if logits_of is None:
        return None
    goes = torch.zeros(pairs.shape[1], dtype=torch.bool)
    first = perturbation.added_edges.shape[1]
    goes[first : first + perturbation.removed_edges.shape[1]] = True
    total = torch.zeros(pairs.shape[1])
    for step in STEPS:
        weights = torch.where(goes, 1.0 - step, step).to(device).requires_grad_()
        (gradient,) = torch.autograd.grad(objective(logits_of(weights)), weights)
        total += gradient.cpu()
    return total.nan_to_num()


def _of_features(
    scene: Scene, perturbation: Perturbation, objective: Callable[[Tensor], Tensor]
) -> Tensor:
    """What each changed row [m] does, on the clean and on the attacked graph."""
    nodes = perturbation.modified_nodes.to(scene.graph.x.device)
    total = torch.zeros(nodes.numel())
    if not nodes.numel():
        return total
    attacked = apply(scene.graph, perturbation)
    change = attacked.x[nodes] - scene.graph.x[nodes]
    targets = scene.targets.to(nodes.device)
    for graph in (scene.graph, attacked):
        x = graph.x.clone().requires_grad_()
        value = objective(scene.ready.victim(x, graph.edge_index)[targets])
        (gradient,) = torch.autograd.grad(value, x)
        total += (gradient[nodes] * change).sum(1).cpu()
    return total.nan_to_num()


def _by_closeness(scene: Scene, perturbation: Perturbation) -> Effects:
    """For each end: 1 where its class changes, and half of the share of such neighbours."""
    graph = apply(scene.graph, perturbation)
    flipped = _flipped_nodes(scene, perturbation, graph.x.shape[0])
    row, column = graph.edge_index.cpu()
    degree = torch.bincount(row, minlength=flipped.numel()).clamp(min=1)
    around = torch.zeros_like(flipped).index_add(0, row, flipped[column]) / degree
    near = flipped + around / 2
    new, other = perturbation.injected_edges
    return Effects(
        near[perturbation.added_edges].sum(0),
        near[perturbation.removed_edges].sum(0),
        near[other] + near[new + scene.graph.num_nodes],
        near[perturbation.modified_nodes],
    )


def _flipped_nodes(scene: Scene, perturbation: Perturbation, num_nodes: int) -> Tensor:
    """float [num_nodes], 1 for each target, or node of a target graph, whose class changes."""
    changed = scene.ready.predicted[scene.targets] != scene.after(perturbation)
    nodes = torch.zeros(num_nodes)
    if scene.threat.batch is not None:
        nodes[torch.isin(scene.threat.batch.cpu(), scene.targets[changed])] = 1.0
    else:
        nodes[scene.targets[changed]] = 1.0
    return nodes
