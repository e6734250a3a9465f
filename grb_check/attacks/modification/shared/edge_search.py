"""The settings of searches for flips by gradients, and the graph that they search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.modification.shared.flip_sources import Aim
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.setting_checks import GradientSettings
from grb_check.attacks.threat import Perturbation, Threat


class EdgeSearchSettings(GradientSettings, Protocol):
    """Settings of every search for edges by gradients.

    Attributes:
        block_size: random pairs whose gradients are taken at a time, for models that do not give
            the gradients of all pairs (`DifferentiableModel.pair_gradients`).
        isolate: whether a node may lose its last edge.
    """

    @property
    def block_size(self) -> int: ...
    @property
    def isolate(self) -> bool: ...


def search_graph(
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    settings: EdgeSearchSettings,
    find: Callable[[EdgeSet, Aim], Tensor],
    rows: Tensor | None = None,
) -> Perturbation:
    """Return the flips that a search finds in a single graph, with a note on unused budget.

    Args:
        settings: of the attack.
        find: the search, from clean edges and aim to distinct codes int64 [m].
        rows: int64 [r], nodes of which every flip has one; those of the threat if not given.
    """
    if threat.batch is not None:
        raise ValueError("the targets are graphs: a subclass with its own perturb attacks nodes")
    if not threat.edge_budget or not threat.targets.numel() or graph.num_nodes < 2:
        return Perturbation(notes=_unused(threat, 0))
    device, clean = graph.x.device, edge_set(graph)
    targets = threat.targets.to(device)  # the threat's tensors may be elsewhere
    rows = threat.ends if rows is None else rows
    rows = torch.arange(graph.num_nodes) if rows is None else rows
    objective = objective_named(settings.objective)
    aim = Aim(model, graph.x, targets, graph.y[targets], objective, rows.to(device))
    flips = find(clean, aim)
    return clean.perturbation(flips, _unused(threat, flips.numel()))


def _unused(threat: Threat, used: int) -> tuple[str, ...]:
    return shortfall(used, threat.edge_budget, "no other flip raises the objective")
