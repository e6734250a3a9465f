"""Metattack: greedy flips along meta-gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_search import search_graph
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_sources import Aim, flip_source
from grb_check.attacks.modification.shared.greedy import SearchSpace, greedy_flips
from grb_check.attacks.poisoning.retrained import check_training_steps, retrained, training_nodes
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import POISONING, Scenario
from grb_check.attacks.setting_checks import check_at_least, check_gradient_settings
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import choose


@dataclass(frozen=True, kw_only=True)
class PoisoningMetattack:
    """Flip the pairs that do most harm to the model that is trained on the graph.

    `Adversarial Attacks on Graph Neural Networks via Meta Learning
    <https://arxiv.org/abs/1902.08412>`_ (Zügner and Günnemann 2019, section 4.2, algorithm 1): the
    gradient of a loss of the trained model with respect to the graph, through all steps of its
    training, see `retrained`. Meta-Self, the default, takes the loss of the targets with the labels
    that the surrogate gives them; Meta-Train that of the training nodes.

    Differences from the paper (our choices):

    - The budget is spent in `steps` with at most one flip at each node in a step, instead of one
      flip at a time.
    - The loss is the mean after 30 and after 100 steps of the training, and not that after 100:
      a victim may keep an early epoch or the last one.
    - Initial weights are drawn once. There is no test of the degree distribution.

    Args:
        steps: number of steps in which the budget is spent.
        training_steps: numbers of steps after which the surrogate answers, see `Retrained`.
        loss: `self` or `train`.
        surrogates: that label the targets.
        block_size, objective, isolate: see `edge_search.EdgeSearchSettings`.
    """

    steps: int = 60
    training_steps: tuple[int, ...] = (30, 100)
    loss: Literal["self", "train"] = "self"
    block_size: int = 20_000
    objective: str = "cross_entropy"
    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)

    name: ClassVar[str] = "metattack"
    scenario: ClassVar[Scenario] = POISONING
    version: ClassVar[int] = 3
    knowledge: ClassVar[Knowledge] = "black-box"

    def __post_init__(self) -> None:
        check_gradient_settings(self)
        check_at_least(1, self, "steps", "block_size")
        check_training_steps(self.training_steps)
        choose("loss", self.loss, ("self", "train"))

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip any pairs of nodes; of `model` only the labels count, which `graph.y` has."""

        def find(clean: EdgeSet, aim: Aim) -> torch.Tensor:
            source = flip_source(aim, clean, self.block_size, generator)
            space = SearchSpace(clean, source, self.isolate, threat.local_budgets)
            # The loop of algorithm 1: meta-gradients on the graph as it is, then the flips of
            # largest gain, where a removal counts with the opposite sign (section 4.2).
            return greedy_flips(space, clean.codes.new_empty(0), threat.edge_budget, self.steps)

        # Inner training (section 4.2, equation of the meta-gradient), unrolled.
        retrained_model = retrained(graph, threat, self.training_steps, generator)
        nodes = training_nodes(graph, threat)
        aimed = threat if self.loss == "self" else replace(threat, targets=nodes)
        return search_graph(graph, aimed, retrained_model, self, find)
