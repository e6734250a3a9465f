"""LR-BCD: PR-BCD with a budget for each node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.modification.shared.removable import local_budgets
from grb_check.attacks.names import LOCAL_SHARE
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationLrbcd:
    r"""Locally constrained randomised block coordinate descent over the edges.

    `Adversarial Training for Graph Neural Networks: Pitfalls, Solutions, and New Directions
    <https://arxiv.org/abs/2306.15427>`_ (Gosch et al. 2023): PR-BCD whose weights :math:`p` of the
    flips also keep a budget at each node v of degree d,

    .. math:: \sum_{e \ni v} p_e \le \Delta_v, \qquad \Delta_v = \lfloor s \cdot d_v \rfloor,

    so that nodes of low degree cannot be overwhelmed, and the largest weights for which both ends
    have room are rounded to flips.

    Differences from the paper (our choices): those of `ModificationPrbcd`, whose search, projection
    and roundings are used; any modification keeps local budgets if its threat has some. The paper
    projects greedily, the largest weights first, which leaves the others no gradient to follow;
    here weights are lowered at each node that has too much (`relaxation.project_at_nodes`), and
    only the roundings are greedy.

    Its threat has the paper's share s = 0.5 unless `+local=` gives another one.

    Args:
        iterations, step_size, block_size, renew_every, samples: see `ModificationPrbcd`.
        objective, isolate, surrogates, knowledge: see `ModificationPrbcd`.
    """

    iterations: int = 60
    step_size: float = 0.5
    block_size: int = 5_000
    renew_every: int = 5
    samples: int = 10
    objective: str = "held_margin"
    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "white-box"

    name: ClassVar[str] = "lrbcd"
    scenario: ClassVar[Scenario] = MODIFICATION
    # Its output changes with that of the other.
    version: ClassVar[int] = ModificationPrbcd.version

    def __post_init__(self) -> None:
        self._search()

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip any pairs of nodes, at each node no more than its local budget.

        Raises:
            GradientError: the model has no gradient for edges.
        """
        if threat.local_budgets is None:
            budgets = local_budgets(graph, LOCAL_SHARE).to(graph.x.device)
            threat = replace(threat, local_budgets=budgets)
        return self._search().perturb(graph, threat, model, generator)

    def _search(self) -> ModificationPrbcd:
        return ModificationPrbcd(
            iterations=self.iterations,
            step_size=self.step_size,
            block_size=self.block_size,
            renew_every=self.renew_every,
            samples=self.samples,
            objective=self.objective,
            isolate=self.isolate,
            surrogates=self.surrogates,
            knowledge=self.knowledge,
        )
