"""TDGIA: nodes injected in rounds, each at the targets that are most defective by then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.links.feature_search import (
    best_features,
    check_feature_search,
    logits_of_features,
)
from grb_check.attacks.links.links import even_links, grouped_links, links_per_node, no_links
from grb_check.attacks.links.steps import Step, sign_step, uniform_start
from grb_check.attacks.links.weak_targets import (
    clean_probabilities,
    defectiveness,
    label_groups,
    mean_probabilities,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.setting_checks import check_at_least
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat
from grb_check.errors import choose

_DEALS: Final = {"grouped": grouped_links, "even": even_links}


@dataclass(frozen=True, kw_only=True)
class InjectionTdgia:
    r"""Topological defective graph injection attack.

    `TDGIA: Effective Injection Attacks on Graph Neural Networks
    <https://arxiv.org/abs/2106.06663>`_ (Zou et al. 2021). Nodes are injected in `rounds`
    (sequential injection, section 4.2). Each round links the targets of highest
    `weak_targets.defectiveness` given the nodes injected so far (section 4.3), then finds features
    with a loss that ignores misclassified targets (section 4.4; `objectives.clipped_likelihood`).

    Where the paper is open, or its authors' code (GRB's reference) differs:

    * Features take sign steps, clipped to [l, h]. The paper writes them as h sin(t), which leaves
      every range that is not symmetric, and follows t by Adam; that took more steps than sign
      steps of adapted size. (our choice)
    * Later rounds continue to optimise the features of earlier ones (`reoptimise`); the code
      freezes them.
    * A round with more links than targets gives every target an equal share and the most defective
      ones the remainder. The code spends at most one link on a target and loses the others.
    * `dealing`: the code gives every injected node targets of all classes ("even"), which can then
      only be pushed towards one class, so that the targets of that class survive. "grouped" gives
      an injected node targets of the same class and the same runner-up class, so that it can push
      all of them across the nearest boundary. (our choice)
    * With fewer nodes than rounds every node has its own round; the code never terminates.

    Args:
        rounds: number of rounds (the code's: 5).
        dealing: `grouped` or `even`.
        reoptimise: whether features of earlier rounds continue to change.
        step_size: of the first sign step (GRB, Table 12).
        iterations: maximum number of steps in each round (GRB, Table 12, for the small graphs).
        patience, objective, harmony, surrogates, knowledge: see
            `feature_search.FeatureSearchSettings`.
    """

    rounds: int = 5
    dealing: str = "grouped"
    reoptimise: bool = True
    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 10
    objective: str = "clipped_likelihood"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "tdgia"
    scenario: ClassVar[Scenario] = "injection"
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_feature_search(self)
        choose("dealing", self.dealing, tuple(_DEALS))
        check_at_least(1, self, "rounds")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Inject round by round."""
        links_each, notes = links_per_node(threat)
        if not threat.injected_nodes or not links_each:
            return Perturbation(notes=notes)
        links, features = no_links(), graph.x.new_empty((0, graph.x.shape[1]))
        certainty = clean_probabilities(graph, threat, model)
        for nodes in self._sizes(threat.injected_nodes):
            new = self._links(graph, links, threat, certainty, nodes, links_each)
            new[0] += features.shape[0]
            links = torch.cat([links, new], dim=1)
            start = uniform_start(graph.x, nodes, threat.feature_range, generator)
            every = torch.cat([features, start])
            maps = logits_of_features(graph, links, threat, model, every.shape[0])
            step = self._step(threat, every, earlier=features.shape[0])
            features = best_features(graph, links, threat, maps, every, step, self)
            with torch.no_grad():
                certainty = mean_probabilities([logits_of(features) for logits_of in maps])
        return Perturbation(injected_x=features.cpu(), injected_edges=links, notes=notes)

    def _sizes(self, nodes: int) -> list[int]:
        whole, rest = divmod(nodes, self.rounds)
        return [size for r in range(self.rounds) if (size := whole + (r < rest))]

    def _links(
        self,
        graph: Data,
        links: Tensor,
        threat: Threat,
        certainty: Tensor,
        nodes: int,
        links_each: int,
    ) -> Tensor:
        """Return `injected_edges` of one round, with its nodes numbered from 0."""
        labels = graph.y[threat.targets]
        score = defectiveness(graph, links, threat, certainty)
        order = score.argsort(descending=True, stable=True)
        groups = label_groups(certainty, labels)[order]
        return _DEALS[self.dealing](threat.targets[order].cpu(), groups.cpu(), nodes, links_each)

    def _step(self, threat: Threat, start: Tensor, earlier: int) -> Step:
        """Return the step of a round on all nodes so far, `earlier` of them from other rounds."""
        step = sign_step(self.step_size, threat.feature_range)
        if self.reoptimise:
            return step
        kept = start[:earlier]
        return lambda x, gradient, scale: torch.cat([kept, step(x, gradient, scale)[earlier:]])
