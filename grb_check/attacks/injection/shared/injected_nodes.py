"""Nodes injected into one graph, and the model's answer to them: what the searches move about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.feature_search import NodesInGraph, nodes_in_graph
from grb_check.attacks.injection.shared.linked_maps import (
    LogitsOfLinks,
    among_targets,
    maps_of_links,
)
from grb_check.attacks.injection.shared.links import candidates_of
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Perturbation, Threat, apply


@dataclass(frozen=True, eq=False)
class InjectionQuestion:
    """A search's model, and what it may inject.

    Attributes:
        graph: clean, on the device of the model; `y` holds the labels to move the targets away
            from.
        threat: to nodes, with one or more injected nodes, links and targets.
        model: to ask.
        guide: the model whose gradients are followed: the model itself, the same object, for which
            nothing is then made twice; or an imitation.
    """

    graph: Data
    threat: Threat
    model: DifferentiableModel
    guide: DifferentiableModel

    @property
    def labels(self) -> Tensor:
        """Labels int64 [t] to move the targets away from."""
        labels: Tensor = self.graph.y[self.threat.targets]
        return labels

    @cached_property
    def linked_model(self) -> tuple[LogitsOfLinks, ...] | str:
        """The model with any links, see `maps_of_links`; made once for all searches."""
        return maps_of_links(self.graph, self.threat, self.model)

    @cached_property
    def linked_guide(self) -> tuple[LogitsOfLinks, ...] | str:
        """The guide, likewise."""
        if self.guide is self.model:
            return self.linked_model
        return maps_of_links(self.graph, self.threat, self.guide)

    @cached_property
    def guide_at_targets(self) -> Sequence[LogitsOfLinks] | str:
        """The guide with links to targets alone; also where all that are allowed are too many."""
        linked = among_targets(self.linked_guide, self.threat)
        if isinstance(linked, str) and self.threat.ends is not None:
            at_targets = replace(self.threat, ends=self.threat.targets)
            return maps_of_links(self.graph, at_targets, self.guide)
        return linked


@dataclass(frozen=True, eq=False)
class LinkedNodes:
    """Injected nodes without features: their links, and the model on the rows that they change.

    Attributes:
        question: whose nodes they are.
        links: `injected_edges` int64 [2, e], to targets, or others of `candidates_of`.
    """

    question: InjectionQuestion
    links: Tensor

    @property
    def count(self) -> int:
        """Number of injected nodes."""
        return self.question.threat.injected_nodes

    @cached_property
    def ends(self) -> Tensor:
        """The position of each link's end among `candidates_of`, targets first, int64 [e]."""
        graph, candidates = self.question.graph, candidates_of(self.question.threat)
        position = torch.zeros(graph.num_nodes, dtype=torch.int64)
        position[candidates.cpu()] = torch.arange(candidates.numel())
        return position[self.links[1]].to(graph.x.device)

    @cached_property
    def model(self) -> NodesInGraph:
        """The model, to be asked often with these links: what stays is computed once."""
        return self._placed(self.question.model)

    @cached_property
    def guide(self) -> NodesInGraph:
        """The guide, likewise."""
        same = self.question.guide is self.question.model
        return self.model if same else self._placed(self.question.guide)

    def _placed(self, model: DifferentiableModel) -> NodesInGraph:
        question = self.question
        return nodes_in_graph(question.graph, self.links, question.threat, model, self.count)

    def asked(self, features: Tensor) -> Injected:
        """Return the model's answer to features float [n, d], on the rows that they change."""
        maps = self.model.maps
        with torch.no_grad():
            return self._answer(features, [logits_of(features) for logits_of in maps])

    def asked_once(self, features: Tensor) -> Injected:
        """Return the answer of a single call, for which these links are not prepared."""
        with torch.no_grad():
            return self._answer(features, self._logits(features))

    def _logits(self, features: Tensor) -> list[Tensor]:
        """Each member's logits float [t, c]: of any links, if it has such a map."""
        question, targets = self.question, self.question.threat.targets
        linked = question.linked_model
        if not isinstance(linked, str):
            weights = features.new_zeros((self.count, candidates_of(question.threat).numel()))
            weights[self.links[0].to(weights.device), self.ends] = 1.0
            return [logits_of(features, weights) for logits_of in linked]
        injected = Perturbation(injected_x=features, injected_edges=self.links)
        attacked = apply(question.graph, injected)
        return [
            member(attacked.x, attacked.edge_index)[targets] for member in members(question.model)
        ]

    def _answer(self, features: Tensor, logits: list[Tensor]) -> Injected:
        mean = torch.stack(logits).mean(0)
        return Injected(self, features, mean, margins_of(mean, self.question.labels).tanh())

    def sums(self, values: Tensor) -> Tensor:
        """Return the sums over each injected node's links, [n, ...], of values [e, ...]."""
        zeros = values.new_zeros((self.count, *values.shape[1:]))
        return zeros.index_add(0, self.links[0].to(values.device), values)


@dataclass(frozen=True, eq=False)
class Injected:
    """Injected nodes with features, and the model's answer.

    Attributes:
        nodes: with their links.
        features: float32 [n, d].
        logits: float [t, c] of the targets.
        margins: float [t], tanh of each target's margin; above 0: lost.
    """

    nodes: LinkedNodes
    features: Tensor
    logits: Tensor
    margins: Tensor

    @property
    def question(self) -> InjectionQuestion:
        """What was asked, with the budget of these nodes."""
        return self.nodes.question

    @property
    def links(self) -> Tensor:
        """`injected_edges` int64 [2, e]."""
        return self.nodes.links

    @property
    def ends(self) -> Tensor:
        """See `LinkedNodes.ends`."""
        return self.nodes.ends

    @property
    def value(self) -> float:
        """A smooth count of lost targets, which the search maximises."""
        return float(self.margins.sum())

    @property
    def share_right(self) -> float:
        """Share of the targets that are still classified as labelled."""
        return float((self.margins <= 0).float().mean())

    def of_nodes(self) -> Tensor:
        """Return the sum of the margins of each injected node's targets, float [n].

        A link to another node counts as the mean of all targets, which it may change.
        """
        return self.nodes.sums(self.at_ends(self.margins, float(self.margins.mean())))

    def at_ends(self, values: Tensor, other: float) -> Tensor:
        """Return each link's value [e], of those of targets [t], and for all other ends another."""
        others = candidates_of(self.question.threat).numel() - values.numel()
        return F.pad(values, (0, others), value=other)[self.ends.to(values.device)]


def as_injected(question: InjectionQuestion, perturbation: Perturbation) -> Injected | None:
    """Return the nodes of a perturbation with the model's answer.

    Its budget is what they use. None if they are linked to others than `candidates_of`, which these
    searches do not move.
    """
    links, candidates = perturbation.injected_edges, candidates_of(question.threat).cpu()
    if not links.shape[1] or not bool(torch.isin(links[1], candidates).all()):
        return None
    nodes, links_each = perturbation.injected_x.shape[0], int(torch.bincount(links[0]).max())
    threat = question.threat
    if (nodes, links_each) != (threat.injected_nodes, threat.edges_per_injected_node):
        used = replace(threat, injected_nodes=nodes, edges_per_injected_node=links_each)
        question = replace(question, threat=used)
    features = perturbation.injected_x.to(question.graph.x)
    return LinkedNodes(question, links).asked_once(features)


def strongest(states: Iterable[Injected]) -> Injected:
    """Return the state of the largest value, to search on from."""
    return max(states, key=lambda state: state.value)


def fewest_right(states: Iterable[Injected]) -> Injected:
    """Return the state that leaves the fewest targets right, to end with; of equals, `strongest`.

    A smooth count may be higher where more targets are just held than are lost.
    """
    return min(states, key=lambda state: (state.share_right, -state.value))
