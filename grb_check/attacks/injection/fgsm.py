"""FGSM: injected features by repeated steps along the sign of the gradient."""

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
class InjectionFgsm:
    r"""Random links, features by the iterated fast gradient sign method.

    `Explaining and Harnessing Adversarial Examples <https://arxiv.org/abs/1412.6572>`_ (Goodfellow
    et al. 2015, section 4), iterated as in `Graph Robustness Benchmark
    <https://arxiv.org/abs/2111.04314>`_ (Zheng et al. 2021):

    .. math:: x_{i+1} = \mathrm{clip}_{[l, h]}(x_i + \epsilon \,
        \mathrm{sign} \nabla_x J(x_i)), \qquad x_0 = \mathrm{clip}_{[l, h]}(0).

    J is `objective` over the targets' guessed labels. There is no ball around the start, because an
    injected node has no original features. The best iterate is returned, not the last.

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

    name: ClassVar[str] = "fgsm"
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
            lambda domain, x, count: domain.zero_start(x, count),
            lambda domain: domain.sign_step(self.step_size),
            generator,
        )
