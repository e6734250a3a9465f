"""Nodes injected into one graph, and the model's answer to them: what the searches move about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.feature_search import NodesInGraph, nodes_in_graph
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat


@dataclass(frozen=True, eq=False)
class InjectionQuestion:
    """A search's model, and what it may inject.

    Attributes:
        graph: clean, on the device of the model; `y` holds the labels to move the targets away
            from.
        threat: to nodes, with one or more injected nodes, links and targets.
        model: to ask.
        guide: the model whose gradients are followed: the model itself, or an imitation.
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


@dataclass(frozen=True, eq=False)
class Injected:
    """Injected nodes, and the model's answer.

    Attributes:
        links: `injected_edges` int64 [2, e], to targets only.
        ends: int64 [e], the position of each link's target among the targets.
        features: float32 [n, d].
        logits: float [t, c] of the targets.
        margins: float [t], tanh of each target's margin; above 0: lost.
    """

    links: Tensor
    ends: Tensor
    features: Tensor
    logits: Tensor
    margins: Tensor

    @property
    def value(self) -> float:
        """A smooth count of lost targets, which the search maximises."""
        return float(self.margins.sum())

    @property
    def any_right(self) -> bool:
        """Whether a target is still classified as labelled."""
        return bool((self.margins <= 0).any())

    def of_nodes(self) -> Tensor:
        """Return the sum of the margins of each injected node's targets, float [n]."""
        return self.sums(self.margins[self.ends])

    def sums(self, values: Tensor) -> Tensor:
        """Return the sums over each injected node's links, [n, ...], of values [e, ...]."""
        zeros = values.new_zeros((self.features.shape[0], *values.shape[1:]))
        return zeros.index_add(0, self.links[0].to(values.device), values)


def placed(question: InjectionQuestion, links: Tensor) -> tuple[NodesInGraph, Injected]:
    """Return the model with injected nodes at these links, and the state without an answer."""
    graph, threat = question.graph, question.threat
    count = threat.injected_nodes
    position = torch.zeros(graph.num_nodes, dtype=torch.int64)
    position[threat.targets.cpu()] = torch.arange(threat.targets.numel())
    nothing = graph.x.new_zeros((count, graph.x.shape[1]))
    ends = position[links[1]].to(graph.x.device)
    nodes = nodes_in_graph(graph, links, threat, question.model, count)
    return nodes, Injected(links, ends, nothing, nothing[:0], nothing[:0, 0])


def asked(
    question: InjectionQuestion, nodes: NodesInGraph, state: Injected, features: Tensor
) -> Injected:
    """Return the state with these features and the model's answer to them."""
    with torch.no_grad():
        logits = torch.stack([logits_of(features) for logits_of in nodes.maps]).mean(0)
    margins = margins_of(logits, question.labels).tanh()
    return replace(state, features=features, logits=logits, margins=margins)


def guided(question: InjectionQuestion, nodes: NodesInGraph, links: Tensor) -> NodesInGraph:
    """Return the guide with injected nodes at the same links."""
    if question.guide is question.model:
        return nodes
    count = question.threat.injected_nodes
    return nodes_in_graph(question.graph, links, question.threat, question.guide, count)


def as_injected(question: InjectionQuestion, perturbation: Perturbation) -> Injected | None:
    """Return the nodes of a perturbation with the model's answer, and as many as the threat allows.

    None if it injects fewer, or links them to other nodes than targets, which these searches do not
    move.
    """
    links, targets = perturbation.injected_edges, question.threat.targets.cpu()
    enough = perturbation.injected_x.shape[0] == question.threat.injected_nodes
    if not enough or not links.shape[1] or not bool(torch.isin(links[1], targets).all()):
        return None
    nodes, empty = placed(question, links)
    return asked(question, nodes, empty, perturbation.injected_x.to(question.graph.x))


def strongest(states: Iterable[Injected]) -> Injected:
    """Return the state of the largest value."""
    return max(states, key=lambda state: state.value)
