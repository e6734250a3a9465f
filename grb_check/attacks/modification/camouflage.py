"""Camouflage: targets are linked to the nodes that look least like them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set, mask_of
from grb_check.attacks.modification.shared.removable import (
    on_cpu,
    reason_within,
    shortfall,
    within_capacity,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_knowledge
from grb_check.attacks.threat import Knowledge, Perturbation, Threat

SPARE: Final = 10  # links considered for each one wanted


@dataclass(frozen=True, kw_only=True)
class ModificationCamouflage:
    """Link targets to the nodes that a model finds most innocent; no edge is removed.

    What fraudsters are seen to do: `Enhancing Graph Neural Network-based Fraud Detectors against
    Camouflaged Fraudsters <https://arxiv.org/abs/2008.08692>`_ (Dou et al. 2020, section 1) calls
    their links to benign entities relation camouflage, and describes them in data; it has no
    algorithm. Here each target gets as many new edges as any other, to the nodes whose largest
    logit of another class exceeds that of the target's class by most. They are taken in turn, so
    that each gets few; targets come last. (our choices)

    The model is called once, and no gradient is needed.

    Args:
        surrogates: models that a black-box attack asks together, see `names.SURROGATES`.
        knowledge: `black-box` or `white-box`.
    """

    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "camouflage"
    scenario: ClassVar[Scenario] = MODIFICATION
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_knowledge(self)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Add edges at targets; the model is asked for logits on the clean graph."""
        clean = edge_set(on_cpu(graph))
        links = clean.codes[:0]
        if threat.edge_budget and threat.targets.numel() and graph.num_nodes > 1:
            with torch.no_grad():
                logits = model(graph.x, graph.edge_index).cpu()
            links = _links(clean, logits, graph.y.cpu(), threat, generator)
        reason = reason_within(threat, "targets are linked to all other nodes that were considered")
        notes = shortfall(links.numel(), threat.edge_budget, reason)
        return clean.perturbation(links, notes)


def _links(
    clean: EdgeSet, logits: Tensor, labels: Tensor, threat: Threat, generator: torch.Generator
) -> Tensor:
    """Return codes of new edges int64 [m], at most the budget.

    In round r the target at place i of a random order is linked to the node at place i + r of
    those that look least like its class.
    """
    targets, budget = threat.targets.cpu(), threat.edge_budget
    order = targets[torch.randperm(targets.numel(), generator=generator)]
    size = min(clean.num_nodes, max(budget, SPARE))
    rounds = min(size, math.ceil(SPARE * budget / order.numel()))
    # places [r, i]: of the partner in round r of the target at place i.
    places = (torch.arange(rounds)[:, None] + torch.arange(order.numel())) % size
    partners = torch.empty_like(places)
    for label in torch.unique(labels[order]).tolist():
        alike = labels[order] == label
        partners[:, alike] = _innocent(logits, label, targets)[places[:, alike]]
    pairs = torch.stack([order.repeat(rounds), partners.flatten()])
    codes = clean.encode(pairs[:, pairs[0] != pairs[1]])
    codes = codes[~clean.has(codes)]
    first = np.sort(np.unique(codes.numpy(), return_index=True)[1])
    codes = codes[torch.from_numpy(first)]
    if threat.local_budgets is not None:
        codes = codes[within_capacity(clean.ends(codes), threat.local_budgets.cpu())]
    return codes[:budget]


def _innocent(logits: Tensor, label: int, targets: Tensor) -> Tensor:
    """Return all nodes, int64 [N]: those that look least like a class first, targets last."""
    others = logits.clone()
    others[:, label] = float("-inf")
    margins = others.amax(1) - logits[:, label]
    margins[mask_of(targets, margins.numel())] = float("-inf")
    return margins.argsort(descending=True, stable=True)
