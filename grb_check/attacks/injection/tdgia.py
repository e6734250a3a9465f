"""TDGIA: nodes injected in rounds, each at the targets that are most defective by then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.domains import domain_of
from grb_check.attacks.injection.shared.feature_search import (
    Place,
    check_feature_search,
    place_in_graph,
)
from grb_check.attacks.injection.shared.links import (
    Sites,
    defective_links,
    even_links,
    grouped_links,
    links_in_graphs,
    links_notes,
    no_links,
    sites_of,
)
from grb_check.attacks.injection.shared.weak_targets import (
    clean_probabilities,
    defectiveness_in_graphs,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import INJECTION, Scenario
from grb_check.attacks.setting_checks import check_at_least
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import choose

_DEALS: Final = {"grouped": grouped_links, "even": even_links}


@dataclass(frozen=True, kw_only=True)
class InjectionTdgia:
    r"""Topological defective graph injection attack.

    `TDGIA: Effective Injection Attacks on Graph Neural Networks
    <https://arxiv.org/abs/2106.06663>`_ (Zou et al. 2021). Nodes are injected in `rounds`
    (sequential injection, section 4.2). Each round links the targets of highest
    `weak_targets.defectiveness` given the nodes injected so far (section 4.3), then finds features
    with a loss that is flat for targets of a label of hardly any probability (section 4.4;
    `objectives.clipped_likelihood`).

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
    * In a set of graphs all graphs have their rounds together, and nodes are linked to the most
      defective ones of their own graph: those of lowest degree, because all share its probability.

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
    scenario: ClassVar[Scenario] = INJECTION
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
        place: Place | None = None,
    ) -> Perturbation:
        """Inject round by round, see `Attack.perturb`.

        Args:
            place: how nodes are injected; into a single graph if not given.
        """
        place = place or place_in_graph(graph, threat, model)
        sites, notes, domain = sites_of(threat), links_notes(threat), domain_of(threat)
        if not int(sites.links_in[sites.owners].sum()):
            return Perturbation(notes=notes)
        links, features = no_links(), graph.x.new_empty((0, graph.x.shape[1]))
        owners, step = sites.owners[:0], domain.sign_step(self.step_size)
        probabilities = clean_probabilities(graph, threat, model)
        for new_owners in self._rounds(sites):  # section 4.2: sequential injection
            # Section 4.3: topological defective edge selection.
            new = self._links(graph, links, threat, probabilities, new_owners, generator)
            new[0] += features.shape[0]
            links, owners = torch.cat([links, new], dim=1), torch.cat([owners, new_owners])
            # Section 4.4: smooth adversarial optimisation of features.
            start = domain.uniform_start(graph.x, new_owners.numel(), generator)
            # All nodes of groups that got some: others have nothing new to react to.
            moves = torch.isin(owners, new_owners)
            if not self.reoptimise:
                moves[: features.shape[0]] = False
            placed = place(links, owners)
            features = placed.best_features(torch.cat([features, start]), step, self, moves)
            # The next round sees the graph with the nodes injected so far.
            probabilities = placed.probabilities(features)
        order = owners.argsort(stable=True)  # graph by graph, as in other attacks
        links[0] = order.argsort()[links[0]]
        return Perturbation(
            injected_x=domain.rounded(features).cpu()[order],
            injected_edges=links,
            injected_graphs=sites.graphs,
            notes=notes,
        )

    def _rounds(self, sites: Sites) -> list[Tensor]:
        """Return the groups int64 [n] of the nodes that are injected in each round."""
        groups = torch.arange(sites.sizes.numel())
        whole, rest = sites.budgets // self.rounds, sites.budgets % self.rounds
        every = [groups.repeat_interleave(whole + (r < rest)) for r in range(self.rounds)]
        return [owners for owners in every if owners.numel()]

    def _links(
        self,
        graph: Data,
        links: Tensor,
        threat: Threat,
        probabilities: Tensor,
        owners: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Return `injected_edges` of one round, with its nodes numbered from 0."""
        if threat.batch is not None:
            score = defectiveness_in_graphs(graph, links, threat, probabilities).cpu()
            order = torch.randperm(score.numel(), generator=generator)  # many have equal degrees
            order = order[score[order].argsort(descending=True, stable=True)]
            order = order[threat.batch.cpu()[order].argsort(stable=True)]
            return links_in_graphs(sites_of(threat), order, owners, evenly=self.dealing == "even")
        deal = _DEALS[self.dealing]
        return defective_links(graph, links, threat, probabilities, owners.numel(), deal)
