"""FGSM: injected features by repeated steps along the sign of the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.feature_search import maximise, objective_of_features
from grb_check.attacks.injection.links import random_links
from grb_check.attacks.injection.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


@dataclass(frozen=True, kw_only=True)
class InjectionFgsm:
    r"""Random links, features by the iterated fast gradient sign method.

    `Explaining and Harnessing Adversarial Examples <https://arxiv.org/abs/1412.6572>`_ (Goodfellow
    et al. 2015, section 4), iterated as in `Graph Robustness Benchmark
    <https://arxiv.org/abs/2111.04314>`_ (Zheng et al. 2021):

    .. math:: x_{i+1} = \mathrm{clip}_{[l, h]}(x_i + \epsilon \,
        \mathrm{sign} \nabla_x J(x_i)), \qquad x_0 = \mathrm{clip}_{[l, h]}(0).

    J is `objective` over the targets' guessed labels. There is no ball around the start: an
    injected node has no original features to stay near. The best iterate counts, not the last.

    Args:
        step_size: epsilon (GRB, Table 12).
        iterations: most steps (GRB, Table 12, for the small graphs).
        patience: stop after that many steps without a gain, see `feature_search.maximise`; None
            takes all steps, as the paper does. (our choice)
        objective: a name from `objectives.OBJECTIVES`. (our choice; the paper's is cross_entropy)
    """

    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 50
    objective: str = "tanh_margin"

    name: ClassVar[str] = "fgsm"
    scenario: ClassVar[Scenario] = "injection"
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        objective_named(self.objective)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Inject nodes at random and choose their features with the model's gradient."""
        links, notes = random_links(threat, generator)
        if not links.shape[1]:
            return Perturbation(notes=notes)
        low, high = threat.feature_range

        def step(features: Tensor, gradient: Tensor) -> Tensor:
            return (features + self.step_size * gradient.sign()).clamp(low, high)

        start = graph.x.new_zeros((threat.injected_nodes, graph.x.shape[1])).clamp(low, high)
        features = maximise(
            objective_of_features(graph, links, threat, model, objective_named(self.objective)),
            start,
            step=step,
            iterations=self.iterations,
            patience=self.patience,
        )
        return Perturbation(injected_x=features, injected_edges=links, notes=notes)
