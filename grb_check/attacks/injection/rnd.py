"""RND: injected nodes with random links and random features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.domains import domain_of
from grb_check.attacks.injection.shared.links import random_links, sites_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import INJECTION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat


@dataclass(frozen=True, kw_only=True)
class InjectionRnd:
    r"""Random links and random features: the lower bound for injection attacks.

    `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_ (Zheng et al. 2021, appendix
    A.4.2), attack RND. Each injected node is linked to uniformly chosen distinct targets; its
    features are

    .. math:: x \sim \mathcal{N}\left(\tfrac{l + h}{2}, \tfrac{h - l}{2}\right),

    clipped to the range [l, h]. The paper only says Gaussian. With this mean and standard deviation
    the features fill any range, with about a third of them at its ends.

    Args:
        knowledge: `black-box` or `white-box`; no difference, because the model is not used.
    """

    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "rnd"
    scenario: ClassVar[Scenario] = INJECTION
    version: ClassVar[int] = 2

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Inject random nodes; the model is not used."""
        links, notes = random_links(threat, generator)
        if not links.shape[1]:
            return Perturbation(notes=notes)
        sites, (low, high) = sites_of(threat), threat.feature_range
        normal = torch.randn((sites.count, graph.x.shape[1]), generator=generator)
        features = domain_of(threat).rounded((low + high) / 2 + normal * (high - low) / 2)
        return Perturbation(
            injected_x=features,
            injected_edges=links,
            injected_graphs=sites.graphs,
            notes=notes,
        )
