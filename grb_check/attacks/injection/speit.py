"""SPEIT: links by degree and among the injected nodes, features by Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.feature_search import (
    check_feature_search,
    nodes_in_graph,
)
from grb_check.attacks.injection.shared.links import (
    even_links,
    links_per_node,
    no_links,
    ring_links,
)
from grb_check.attacks.injection.shared.steps import adam_step, uniform_start, zero_start
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import INJECTION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class InjectionSpeit:
    """Adversarial adjacency first, adversarial features second.

    `SPEIT <https://github.com/Stanislas0/KDD_CUP_2020_MLTrack2_SPEIT>`_ (Zheng et al., first place
    of KDD Cup 2020, track 2), as `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_
    (Zheng et al. 2021, appendix A.4.2) lists it: adjacency generation, then enhanced feature
    gradients. The published description leaves most of it open. Our choices:

    * Targets share the links evenly; those of low degree get the remainder, because a link weighs
      more at a node with few others. Ties are broken at random. GRB's reference code links at
      random, so that its SPEIT is its FGSM with another start.
    * Each injected node gets targets of all degrees, and `inner_links` injected neighbours in a
      ring, through which its features also reach the targets of its neighbours.
    * Features start at 0, or at random with `harmony`, because the cosine has no direction at 0 and
      a huge gradient close to it. They follow Adam, clipped to the range. Cross-entropy keeps
      pushing targets that the surrogate already misclassifies, which helps on other models.

    Args:
        inner_links: injected neighbours of an injected node, even; fewer if the budget or the
            number of injected nodes does not allow as many. (our choice)
        step_size: of Adam (GRB, Table 12).
        iterations: maximum number of steps (GRB, Table 12, for the small graphs).
        patience, objective, harmony, surrogates, knowledge: see
            `feature_search.FeatureSearchSettings`.
    """

    inner_links: int = 2
    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 10
    objective: str = "cross_entropy"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "speit"
    scenario: ClassVar[Scenario] = INJECTION
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_feature_search(self)
        if self.inner_links < 0 or self.inner_links % 2:
            raise UsageError(f"inner_links is {self.inner_links}; it must be 0, 2, 4, ...")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Link by degree, then find features with the model's gradient."""
        links, notes = self._links(graph, threat, generator)
        if not links.shape[1]:
            return Perturbation(notes=notes)
        start = zero_start(graph.x, threat.injected_nodes, threat.feature_range)
        if self.harmony:
            start = uniform_start(graph.x, threat.injected_nodes, threat.feature_range, generator)
        step = adam_step(self.step_size, threat.feature_range)
        nodes = nodes_in_graph(graph, links, threat, model, start.shape[0])
        features = nodes.best_features(start, step, self)
        return Perturbation(injected_x=features.cpu(), injected_edges=links, notes=notes)

    def _links(
        self, graph: Data, threat: Threat, generator: torch.Generator
    ) -> tuple[Tensor, tuple[str, ...]]:
        nodes, targets = threat.injected_nodes, threat.targets.cpu()
        room = min(nodes, threat.edges_per_injected_node) - 1
        inner = min(self.inner_links, max(room, 0) // 2 * 2)
        links_each, notes = links_per_node(threat, inner)
        if not nodes or not links_each:
            return no_links(), notes
        degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).cpu()[targets]
        shuffled = torch.randperm(targets.numel(), generator=generator)
        by_degree = shuffled[degrees[shuffled].argsort(stable=True)]
        rank = torch.arange(targets.numel())  # groups of one: dealt out in order of degree
        outer = even_links(targets[by_degree], rank, nodes, links_each)
        return torch.cat([outer, ring_links(nodes, inner, graph.num_nodes)], dim=1), notes
