"""SPEIT: links by degree and among the injected nodes, features by Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.links.feature_search import check_search, find_features
from grb_check.attacks.links.links import even_links, links_per_node, no_links, ring_links
from grb_check.attacks.links.steps import adam_step, uniform_start, zero_start
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class InjectionSpeit:
    """Adversarial adjacency first, adversarial features second.

    `SPEIT <https://github.com/Stanislas0/KDD_CUP_2020_MLTrack2_SPEIT>`_ (Zheng et al., first place
    of KDD Cup 2020, track 2), as `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_
    (Zheng et al. 2021, appendix A.4.2) lists it: adjacency generation, then enhanced feature
    gradients. Its published description leaves most open. Decided here:

    * Targets share the links evenly, those of low degree get what does not divide: a link weighs
      more where there are few others. Ties are broken at random. GRB's reference code links at
      random, so that its SPEIT is its FGSM with another start.
    * Every injected node gets its share of every degree, and `inner_links` injected neighbours in a
      ring, through which a node's features also reach the targets of its neighbours.
    * Features start at 0, or with `harmony` at random, as the cosine has no direction at 0 and a
      gradient beyond all others beside it. They follow Adam, clipped to the range. Cross-entropy
      keeps pushing targets that the surrogate has lost already, which is what helps on models that
      differ from it.

    Args:
        inner_links: injected neighbours of an injected node, even; fewer where the budget or the
            number of injected nodes does not allow them. (our choice)
        step_size: of Adam (GRB, Table 12).
        iterations: most steps (GRB, Table 12, for the small graphs).
        patience: stop after that many steps without a gain, see `feature_search.maximise`; None
            takes all steps, as the paper does. (our choice)
        objective: a name from `objectives.OBJECTIVES`.
        harmony: weight of the homophily of injected nodes in the objective (HAO); 0 is the paper's.
        surrogates: models that are attacked together when black-box. (one GCN is GRB's)
        knowledge: `black-box` or `white-box`.
    """

    inner_links: int = 2
    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 20
    objective: str = "cross_entropy"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "speit"
    scenario: ClassVar[Scenario] = "injection"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_search(self)
        if self.inner_links < 0 or self.inner_links % 2:
            raise UsageError(f"inner_links is {self.inner_links}, allowed are 0, 2, 4, ...")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Link by degree, then choose features with the model's gradient."""
        links, notes = self._links(graph, threat, generator)
        if not links.shape[1]:
            return Perturbation(notes=notes)
        start = zero_start(graph.x, threat.injected_nodes, threat.feature_range)
        if self.harmony:
            start = uniform_start(graph.x, threat.injected_nodes, threat.feature_range, generator)
        step = adam_step(self.step_size, threat.feature_range)
        features = find_features(graph, links, threat, model, start, step, self)
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
        rank = torch.arange(targets.numel())  # groups of one: dealt out in the order of degrees
        outer = even_links(targets[by_degree], rank, nodes, links_each)
        return torch.cat([outer, ring_links(nodes, inner, graph.num_nodes)], dim=1), notes
