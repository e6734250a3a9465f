"""RND: edges at targets flipped at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.flips_at_targets import (
    most_additions,
    random_flips_at_targets,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_removal_share, check_restrict
from grb_check.attacks.threat import Knowledge, Perturbation, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationRnd:
    """Random removals and additions at targets: the lower bound for modification attacks.

    `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_ (Zheng et al. 2021, appendix
    A.4.2), attack RND, which modifies the structure of the graph at random. Removals are drawn
    uniformly from the edges with a target end, additions uniformly from the other pairs with a
    target end. The benchmark's code only removes; its threat also allows additions, so both are
    used here.

    Args:
        removal_share: part of the budget spent on removals, rounded down. (our choice)
        restrict: `none`, or `deletions` for removals only, as in GRB's code.
        isolate: whether a node may lose its last edge. (GRB's default is False)
    """

    removal_share: float = 0.5
    restrict: str = "none"
    isolate: bool = True

    name: ClassVar[str] = "rnd"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_removal_share(self.removal_share)
        check_restrict(self.restrict)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip random edges; neither labels nor the model are used."""
        additions = most_additions(self.restrict, threat.edge_budget)
        return random_flips_at_targets(
            graph,
            threat,
            groups=torch.arange(graph.num_nodes),
            remove_within=False,
            partners=[torch.ones(graph.num_nodes, dtype=torch.bool)],
            removal_share=self.removal_share if additions else 1.0,
            most_additions=additions,
            isolate=self.isolate,
            generator=generator,
        )
