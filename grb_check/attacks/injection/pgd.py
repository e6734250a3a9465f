"""PGD: injected features by projected gradient steps from a random start."""

from __future__ import annotations

import math
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
class InjectionPgd:
    r"""Random links, features by projected gradient ascent from a random start.

    `Towards Deep Learning Models Resistant to Adversarial Attacks
    <https://arxiv.org/abs/1706.06083>`_ (Madry et al. 2018, section 2.1), in the form for l2
    steps, each injected node v on its own:

    .. math:: x_v \leftarrow \mathrm{clip}_{[l, h]}\left(x_v + \epsilon \sqrt{d} \,
        \frac{\nabla_{x_v} J(x)}{\lVert \nabla_{x_v} J(x) \rVert_2}\right), \qquad
        x_v \sim \mathcal{U}[l, h]^d.

    J is `objective` over the targets' guessed labels; the best iterate counts. GRB names PGD beside
    FGSM, but with sign steps and no ball around the start both end on the same corner of the
    feature box. Here the step follows the gradient itself, so that features of little effect move
    little, and the start is random. The factor :math:`\sqrt{d}` makes epsilon the root mean square
    change of one feature, comparable with FGSM's step.

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

    name: ClassVar[str] = "pgd"
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
        num_features = graph.x.shape[1]
        reach = self.step_size * math.sqrt(num_features)

        def step(features: Tensor, gradient: Tensor) -> Tensor:
            direction = torch.nn.functional.normalize(gradient, dim=1, eps=1e-30)
            return (features + reach * direction).clamp(low, high)

        uniform = torch.rand((threat.injected_nodes, num_features), generator=generator)
        start = (low + (high - low) * uniform).clamp(low, high).to(graph.x)
        features = maximise(
            objective_of_features(graph, links, threat, model, objective_named(self.objective)),
            start,
            step=step,
            iterations=self.iterations,
            patience=self.patience,
        )
        return Perturbation(injected_x=features, injected_edges=links, notes=notes)
