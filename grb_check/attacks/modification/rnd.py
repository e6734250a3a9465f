"""RND: edges at targets flipped at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.random_flips import check_share, random_flips
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationRnd:
    """Random removals and additions at targets, the floor for every modification attack.

    `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_ (Zheng et al. 2021, appendix
    A.4.2), attack RND, which modifies the structure of the graph at random. Removals are drawn
    uniformly from the edges with a target end, additions uniformly from the pairs with a target
    end that are no edge. The benchmark's own code only removes; its threat allows additions too,
    so both are used here.

    Args:
        removal_share: part of the budget spent on removals, rounded down. (our choice)
    """

    removal_share: float = 0.5

    name: ClassVar[str] = "rnd"
    scenario: ClassVar[Scenario] = "modification"
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_share(self.removal_share)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip random edges; neither labels nor the model are used."""
        return random_flips(
            graph,
            threat,
            groups=torch.arange(graph.num_nodes),
            remove_within=False,
            removal_share=self.removal_share,
            generator=generator,
        )
