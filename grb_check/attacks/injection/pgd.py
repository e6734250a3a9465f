"""PGD: injected features by projected gradient steps from a random start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.feature_search import (
    Place,
    check_feature_search,
    place_in_graph,
)
from grb_check.attacks.injection.shared.random_ascent import random_ascent
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import INJECTION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat


@dataclass(frozen=True, kw_only=True)
class InjectionPgd:
    r"""Random links, features by projected gradient ascent from a random start.

    `Towards Deep Learning Models Resistant to Adversarial Attacks
    <https://arxiv.org/abs/1706.06083>`_ (Madry et al. 2018, section 2.1), in the form for l2
    steps, each injected node v on its own:

    .. math:: x_v \leftarrow \mathrm{clip}_{[l, h]}\left(x_v + \epsilon \sqrt{d} \,
        \frac{\nabla_{x_v} J(x)}{\lVert \nabla_{x_v} J(x) \rVert_2}\right), \qquad
        x_v \sim \mathcal{U}[l, h]^d.

    J is `objective` over the targets' guessed labels; the best iterate is returned. GRB lists PGD
    beside FGSM, but with sign steps and no ball around the start both end in the same corner of the
    feature box. Here the step follows the gradient itself, so that features of little effect move
    little, and the start is random. The factor :math:`\sqrt{d}` makes epsilon the root mean square
    change of one feature, comparable with FGSM's step.

    Args:
        step_size: epsilon (GRB, Table 12).
        iterations: maximum number of steps (GRB, Table 12, for the small graphs).
        objective: our choice; the paper's is cross_entropy.
        patience, harmony, surrogates, knowledge: see `feature_search.FeatureSearchSettings`.
    """

    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 10
    objective: str = "tanh_margin"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "pgd"
    scenario: ClassVar[Scenario] = INJECTION
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        check_feature_search(self)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
        place: Place | None = None,
    ) -> Perturbation:
        """Link at random, then find features with the model's gradient, see `Attack.perturb`.

        Args:
            place: how nodes are injected; into a single graph if not given.
        """
        return random_ascent(
            graph,
            threat,
            place or place_in_graph(graph, threat, model),
            self,
            lambda domain, x, count: domain.uniform_start(x, count, generator),
            lambda domain: domain.l2_step(self.step_size),
            generator,
        )
