"""PR-BCD along meta-gradients."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.poisoning.retrained import check_training_steps, retrained
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import POISONING, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, apply
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class PoisoningMetaPrbcd:
    """Relax the flips in a block of pairs, along the gradient through a model's training.

    The attack `modification/prbcd` (Geisler et al. 2021) on a model that is trained anew for each
    gradient, see `retrained`: `pgd_meta_edges` of `Are Defenses for Graph Neural Networks Robust?
    <https://arxiv.org/abs/2301.13694>`_ (Mujkanovic et al. 2022, appendix). The roundings are
    compared by the accuracy of models that are trained on them.

    The search runs once for each of the `objectives`, and the flips count that leave less of a
    model with other initial weights (our choice): with a large budget and few labels the
    cross-entropy is far stronger, with many labels `held_margin`.

    Args:
        training_steps: numbers of steps after which the surrogate answers, see `Retrained`.
        objectives: names from `objectives.OBJECTIVES`.
        surrogates: that label the targets.
        iterations, step_size, block_size, renew_every, samples, isolate: see `ModificationPrbcd`.
    """

    training_steps: tuple[int, ...] = (30, 100)
    objectives: tuple[str, ...] = ("cross_entropy", "held_margin")
    iterations: int = 60
    step_size: float = 0.5
    block_size: int = 5_000
    renew_every: int = 5
    samples: int = 10
    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)

    name: ClassVar[str] = "meta-prbcd"
    scenario: ClassVar[Scenario] = POISONING
    version: ClassVar[int] = 2
    knowledge: ClassVar[Knowledge] = "black-box"

    def __post_init__(self) -> None:
        check_training_steps(self.training_steps)
        if not self.objectives:
            raise UsageError("objectives is empty; name at least one")
        self._searches()  # which check the other settings

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip any pairs of nodes; of `model` only the labels count, which `graph.y` has."""
        retrained_model = retrained(graph, threat, self.training_steps, generator)
        perturbations = [
            search.perturb(graph, threat, retrained_model, generator) for search in self._searches()
        ]
        other = retrained(graph, threat, self.training_steps, generator)
        targets = threat.targets.to(graph.x.device)

        def held(perturbation: Perturbation) -> int:
            logits = other(graph.x, apply(graph, perturbation).edge_index)[targets]
            return int((logits.argmax(1) == graph.y[targets]).sum())

        return min(perturbations, key=held)

    def _searches(self) -> list[ModificationPrbcd]:
        shared = {attribute.name for attribute in fields(self)} - {"training_steps", "objectives"}
        settings = {name: getattr(self, name) for name in shared}
        return [
            ModificationPrbcd(**settings, objective=objective, knowledge="black-box")
            for objective in self.objectives
        ]
