"""DICE: delete internally, connect externally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.random_flips import check_share, random_flips
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationDice:
    """Remove edges inside a class, add edges between classes.

    "Hiding individuals and communities in a social network" (Waniek et al., Nature Human Behaviour
    2, 2018), heuristic DICE: of a budget b, d edges are disconnected internally and b - d
    connected externally. The communities are the classes in `graph.y`: true labels of
    training and validation nodes, guessed ones of all others. Each edge, removed or added, has at
    least one target end; within these limits every choice is equally likely.

    Args:
        removal_share: d / b, rounded down to whole edges; the paper leaves it open. (our choice)
    """

    removal_share: float = 0.5

    name: ClassVar[str] = "dice"
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
        """Flip edges by the labels of their ends; the model is not used."""
        return random_flips(
            graph,
            threat,
            groups=graph.y.cpu(),
            remove_within=True,
            removal_share=self.removal_share,
            generator=generator,
        )
