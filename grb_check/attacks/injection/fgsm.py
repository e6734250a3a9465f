"""FGSM: injected features by repeated steps along the sign of the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.links.feature_search import check_search, find_features
from grb_check.attacks.links.links import random_links
from grb_check.attacks.links.steps import sign_step, zero_start
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
        objective: a name from `objectives.OBJECTIVES`. (our choice; the paper's is
            cross_entropy)
        harmony: weight of the homophily of injected nodes in the objective (HAO); 0 is the paper's.
        surrogates: models that are attacked together when black-box. (one GCN is GRB's)
        knowledge: `black-box` or `white-box`.
    """

    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 20
    objective: str = "tanh_margin"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "fgsm"
    scenario: ClassVar[Scenario] = "injection"
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_search(self)

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
        start = zero_start(graph.x, threat.injected_nodes, threat.feature_range)
        step = sign_step(self.step_size, threat.feature_range)
        features = find_features(graph, links, threat, model, start, step, self)
        return Perturbation(injected_x=features.cpu(), injected_edges=links, notes=notes)
