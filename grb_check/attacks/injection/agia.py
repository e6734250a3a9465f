"""AGIA: links and features found together, by gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.feature_search import (
    MIN_GAIN,
    check_feature_search,
    gradients,
    nodes_in_graph,
)
from grb_check.attacks.injection.shared.harmony import homophily_of_weights
from grb_check.attacks.injection.shared.linked_maps import MOST_PAIRS, LogitsOfLinks, maps_of_links
from grb_check.attacks.injection.shared.links import (
    candidates_of,
    defective_links,
    links_per_node,
    no_links,
)
from grb_check.attacks.injection.shared.steps import adam_step, free_adam, sign_step, zero_start
from grb_check.attacks.injection.shared.weak_targets import clean_probabilities
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import INJECTION, Scenario
from grb_check.attacks.setting_checks import check_at_least, check_positive
from grb_check.attacks.threat import Knowledge, Perturbation, Threat

# From features [n, d] and weights of links [n, m] to the objective (a scalar).
_Value = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class InjectionAgia:
    """Adaptive graph injection attack: gradients decide which targets an injected node links to.

    `Understanding and Improving Graph Injection Attack by Promoting Unnoticeability
    <https://arxiv.org/abs/2202.08057>`_ (Chen et al. 2022, appendix on AGIA and MetaGIA). AGIA
    relaxes the entries of injected nodes in the adjacency matrix to weights, learns them with the
    features, and rounds them; MetaGIA takes the entry of largest gradient, one at a time. On the
    measured graphs rounding lost a large part of the gain. So here the links are 0 or 1 at every
    step, as in MetaGIA, and all are reconsidered at every step, as in AGIA:

    1. Start: links as TDGIA places them in a single round, features by sign steps.
    2. Exchange: every pair of injected node and target has a score; each injected node has the
       links of highest score. The gradient of the objective with respect to the weights of all
       links, absent ones too, is passed straight through to the scores (Bengio et al. 2013,
       arXiv:1308.3432); Adam moves scores and features. The best links found are kept.
    3. Features again by sign steps, for these links. Unless the objective is then above that of the
       first part, the result of the first part is returned.

    The new accounts of a gang may have links to other nodes than targets (`Threat.ends`): links
    start at targets, and are exchanged with all that are allowed.

    The sequential variants of the paper (SeqGIA) correspond to TDGIA's rounds and are not repeated
    here: all nodes are in the graph from the start and move together.

    Args:
        exchanges: maximum number of steps of the second part. (our choice)
        link_step: of Adam, for the scores, which start between 0 and 0.6. (our choice)
        feature_step: of Adam, for the features during the exchange. (our choice)
        most_pairs: with more pairs of injected nodes and nodes to link to than this the links stay
            as in the first part, with a note; likewise if the model takes no weights of edges, see
            `DifferentiableModel.with_links`. (our choice: 16 MB a matrix)
        step_size: of the sign steps (GRB, Table 12, for its attacks).
        iterations: maximum number of sign steps, before and after the exchange.
        patience: stop after that many steps without a gain, the exchange after ten times as many;
            None takes all steps. (our choice)
        objective, harmony, surrogates, knowledge: see `feature_search.FeatureSearchSettings`. (the
            paper attacks with harmony and without)
    """

    exchanges: int = 600
    link_step: float = 0.01
    feature_step: float = 0.05
    most_pairs: int = MOST_PAIRS
    step_size: float = 0.01
    iterations: int = 1000
    patience: int | None = 10
    objective: str = "probability_margin"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "agia"
    scenario: ClassVar[Scenario] = INJECTION
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_feature_search(self)
        check_at_least(0, self, "exchanges", "most_pairs")
        check_positive(self, "link_step", "feature_step")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Place links and find features, exchange links, and find features again."""
        links_each, notes = links_per_node(threat)
        if not threat.injected_nodes or not links_each:
            return Perturbation(notes=notes)
        certainty = clean_probabilities(graph, threat, model)
        links = defective_links(graph, no_links(), threat, certainty, threat.injected_nodes)
        start = zero_start(graph.x, threat.injected_nodes, threat.feature_range)
        features, before = self._features(graph, links, threat, model, start)
        linked = maps_of_links(graph, threat, model, self.most_pairs)
        exchanged = self.exchanged(graph, threat, linked, links, features, generator)
        if isinstance(exchanged, str):
            notes = (*notes, exchanged)
        else:
            others, start = exchanged
            result, after = self._features(graph, others, threat, model, start)
            if after > before:
                links, features = others, result
        return Perturbation(injected_x=features.cpu(), injected_edges=links, notes=notes)

    def _features(
        self,
        graph: Data,
        links: Tensor,
        threat: Threat,
        model: DifferentiableModel,
        start: Tensor,
    ) -> tuple[Tensor, float]:
        """Return the best features by sign steps, and their objective."""
        nodes = nodes_in_graph(graph, links, threat, model, start.shape[0])
        step = sign_step(self.step_size, threat.feature_range)
        features = nodes.best_features(start, step, self)
        value = nodes.objective(self, start.shape[0])
        with torch.no_grad():
            return features, float(value(features))

    def _value(self, graph: Data, threat: Threat, linked: Sequence[LogitsOfLinks]) -> _Value:
        """Return the objective as a function of features and weights."""
        labels, objective = graph.y[threat.targets], objective_named(self.objective)
        homophily = homophily_of_weights(graph, candidates_of(threat)) if self.harmony else None

        def value(features: Tensor, weights: Tensor) -> Tensor:
            values = [objective(logits_of(features, weights), labels) for logits_of in linked]
            total = torch.stack(values).mean()
            if homophily is None:
                return total
            return total + self.harmony * homophily(features, weights)

        return value

    def exchanged(
        self,
        graph: Data,
        threat: Threat,
        linked: Sequence[LogitsOfLinks] | str,
        links: Tensor,
        features: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor] | str:
        """Return the links and features of highest objective, or why links cannot be exchanged.

        Args:
            graph: clean.
            threat: the limits, and the targets.
            linked: of the model to follow, see `maps_of_links`.
            links: `injected_edges` int64 [2, e] to start from.
            features: float [n, d] to start from.
            generator: orders links of the same score.
        """
        if isinstance(linked, str):
            return linked
        value_of = self._value(graph, threat, linked)
        links_each, _ = links_per_node(threat)
        scores = _first_scores(links, threat, features, generator)
        move_scores = free_adam(self.link_step)
        move_features = adam_step(self.feature_step, threat.feature_range)
        best, reached = float("-inf"), 0
        solution = (links, features)
        for iteration in range(self.exchanges):
            # The entries of injected nodes in the adjacency matrix, 0 or 1: the links of highest
            # score. AGIA has weights between 0 and 1 here, which it rounds at the end.
            chosen = scores.topk(links_each, dim=1).indices
            weights = torch.zeros_like(scores).scatter_(1, chosen, 1.0).requires_grad_()
            features = features.detach().requires_grad_()
            with torch.enable_grad():
                value = value_of(features, weights)
            if float(value.detach()) > best + MIN_GAIN:
                best, reached = float(value.detach()), iteration
                solution = (_as_links(chosen, threat), features.detach())
            elif self.patience is not None and iteration - reached >= 10 * self.patience:
                break
            # The gradient by all entries, absent links too, goes straight through to the scores.
            by_feature, by_weight = gradients(value, features, weights)
            scores = move_scores(scores, by_weight, 1.0)
            features = move_features(features.detach(), by_feature, 1.0)
        return solution


def _first_scores(
    links: Tensor, threat: Threat, features: Tensor, generator: torch.Generator
) -> Tensor:
    """Return scores float [n, m]: 0.5 for each link, plus up to 0.1 at random to order the rest."""
    candidates = candidates_of(threat).cpu()
    noise = torch.rand((features.shape[0], candidates.numel()), generator=generator) / 10
    ascending = candidates.argsort()
    positions = ascending[torch.searchsorted(candidates[ascending], links[1])]
    noise[links[0], positions] += 0.5
    return noise.to(features)


def _as_links(chosen: Tensor, threat: Threat) -> Tensor:
    """Return `injected_edges` for indices [n, k] into `candidates_of`."""
    from_new = torch.arange(chosen.shape[0]).repeat_interleave(chosen.shape[1])
    return torch.stack([from_new, candidates_of(threat)[chosen.flatten()].cpu()])
