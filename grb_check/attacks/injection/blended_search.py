"""Nodes injected into one graph, from blends of features on: by gradients, links and answers.

A model that removes links between dissimilar nodes gives no gradient towards a link that it would
keep: features that start at random or at 0 are never looked at, and cannot learn to be. So the
search starts from features that are similar to those of the targets (`best_blend`), tried by the
model's answers alone. Then AGIA exchanges links, in fewer and longer steps. From there on three
parts alternate (our choice; in none of the papers):

1. Sign steps along the gradient (`feature_search`), with the settings of PGD.
2. If the gradient is in doubt, steps that the model's answers choose (`answered_steps`). Injected
   nodes hardly share targets, so that one call judges a candidate of every node.
3. Links that lost targets do not need go to targets that are still right (`moved_links`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection.agia import InjectionAgia
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.shared.domains import domain_of
from grb_check.attacks.injection.shared.feature_search import (
    MIN_GAIN,
    NodesInGraph,
    gradients,
    nodes_in_graph,
)
from grb_check.attacks.injection.shared.links import (
    defective_links,
    links_notes,
    links_per_node,
    no_links,
)
from grb_check.attacks.injection.shared.weak_targets import clean_probabilities, label_groups
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation, Threat

VERSION: Final = 2  # raised whenever something else may be found
TARGET_SHARES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the targets' mean in a blend
SCALES: Final = (1.0, 2.0, 4.0, 16.0)  # of a blend, in median norms of the data's rows
EXCHANGE: Final = InjectionAgia(exchanges=100, link_step=0.05, patience=1)
ROUNDS: Final = 8
STEPS: Final = 10  # of `answered_steps` in each round
FIRST_STEP: Final = 0.1  # of half the range
LENGTHS: Final = (0.5, 2.0)  # of candidates, in steps
PULLS: Final = (0.0, 0.2)  # of candidates, towards the targets' mean
SHRINKAGE: Final = 0.6
MOVED: Final = (1.0, 0.5, 0.25, 0.1)  # shares of the spare links
PATIENCE: Final = 2  # rounds in which links that move gain nothing, and steps in a row
LINKS_AT_ONCE: Final = 10_000  # links, whose rows are in memory at a time


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
        return _sums(self, self.margins[self.ends])


def can_search(threat: Threat) -> bool:
    """Whether a threat is of nodes injected into one graph, and allows any that are linked."""
    into_one = threat.scenario == INJECTION and threat.batch is None
    return into_one and threat.injected_nodes > 0 and links_per_node(threat)[0] > 0


def search_injections(question: InjectionQuestion, *, by_answers: bool) -> Perturbation:
    """Return the strongest injection found.

    Args:
        question: of the model.
        by_answers: whether steps that answers choose follow each gradient ascent.

    Raises:
        GradientError, ModelError: see `feature_search.maximise_each`.
    """
    best = _ascended(question, best_blend(question))
    best = _strongest((best, exchanged_links(question, best)))
    state, idle = best, 0
    for _ in range(ROUNDS):
        if by_answers:
            state = answered_steps(question, state)
        best = _strongest((best, state))
        if not best.any_right or idle == PATIENCE:
            break
        state = _ascended(question, moved_links(question, state))
        idle = 0 if state.value > best.value + MIN_GAIN * best.margins.numel() else idle + 1
        best = _strongest((best, state))
    return Perturbation(
        injected_x=best.features.cpu(),
        injected_edges=best.links,
        notes=links_notes(question.threat),
    )


def best_blend(question: InjectionQuestion) -> Injected:
    r"""Return the blend of features and scale to which the model's answer is the worst.

    An injected node's row is

    .. math:: s \left(a \hat{m} + (1 - a) \hat{c}\right)

    with the mean m of its targets' rows, and the mean c of the rows of the class that its targets
    are closest to becoming, less that of all nodes; both of the data's median norm. The values of a
    and s are `TARGET_SHARES` and `SCALES`. Targets are grouped as TDGIA does in a single round.
    """
    graph, threat = question.graph, question.threat
    probabilities = clean_probabilities(graph, threat, question.model)
    domain = domain_of(threat)
    links = defective_links(graph, no_links(), threat, probabilities, threat.injected_nodes)
    nodes, empty = _placed(question, links)
    own_rows, others = _blended_rows(question, empty, probabilities)
    blends = (
        domain.rounded(scale * (share * own_rows + (1 - share) * others))
        for share in TARGET_SHARES
        for scale in SCALES
    )
    return _strongest(_asked(question, nodes, empty, features) for features in blends)


def _strongest(states: Iterable[Injected]) -> Injected:
    return max(states, key=lambda state: state.value)


def _blended_rows(
    question: InjectionQuestion, state: Injected, probabilities: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the two rows that are blended for each injected node, each float [n, d]."""
    x, labels = question.graph.x, question.graph.y
    classes = F.one_hot(labels, probabilities.shape[1]).to(x)
    means = (classes.T @ x) / classes.sum(0).clamp(min=1)[:, None]
    others = probabilities.scatter(1, question.labels[:, None], 0.0)
    towards = _sums(state, others[state.ends]).argmax(1)
    return _own_rows(question, state), _scaled(x, (means - x.mean(0))[towards])


def _own_rows(question: InjectionQuestion, state: Injected) -> Tensor:
    """Return the mean of each injected node's targets, of the data's median norm, float [n, d]."""
    x = question.graph.x
    rows = x.new_zeros((state.features.shape[0], x.shape[1]))
    new, old = state.links.to(x.device)
    for some_new, some_old in zip(new.split(LINKS_AT_ONCE), old.split(LINKS_AT_ONCE), strict=True):
        rows.index_add_(0, some_new, x[some_old])
    return _scaled(x, rows)


def _scaled(x: Tensor, rows: Tensor) -> Tensor:
    """Return the rows with the median norm of the rows of x."""
    norm: Tensor = x.norm(dim=1).median()
    return F.normalize(rows, dim=1) * norm


def _sums(state: Injected, values: Tensor) -> Tensor:
    """Return the sums over each injected node's links, [n, ...], of values [e, ...]."""
    zeros = values.new_zeros((state.features.shape[0], *values.shape[1:]))
    return zeros.index_add(0, state.links[0].to(values.device), values)


def _placed(question: InjectionQuestion, links: Tensor) -> tuple[NodesInGraph, Injected]:
    """Return the model with injected nodes at these links, and the state without an answer."""
    graph, threat = question.graph, question.threat
    count = threat.injected_nodes
    position = torch.zeros(graph.num_nodes, dtype=torch.int64)
    position[threat.targets.cpu()] = torch.arange(threat.targets.numel())
    nothing = graph.x.new_zeros((count, graph.x.shape[1]))
    ends = position[links[1]].to(graph.x.device)
    nodes = nodes_in_graph(graph, links, threat, question.model, count)
    return nodes, Injected(links, ends, nothing, nothing[:0], nothing[:0, 0])


def _asked(
    question: InjectionQuestion, nodes: NodesInGraph, state: Injected, features: Tensor
) -> Injected:
    """Return the state with these features and the model's answer to them."""
    with torch.no_grad():
        logits = torch.stack([logits_of(features) for logits_of in nodes.maps]).mean(0)
    margins = margins_of(logits, question.labels).tanh()
    return replace(state, features=features, logits=logits, margins=margins)


def _guide(question: InjectionQuestion, nodes: NodesInGraph, links: Tensor) -> NodesInGraph:
    """Return the guide with injected nodes at the same links."""
    if question.guide is question.model:
        return nodes
    count = question.threat.injected_nodes
    return nodes_in_graph(question.graph, links, question.threat, question.guide, count)


def _ascended(question: InjectionQuestion, state: Injected) -> Injected:
    """Return the stronger of the state and the end of a gradient ascent from it on."""
    nodes, _ = _placed(question, state.links)
    domain = domain_of(question.threat)
    settings = InjectionPgd()
    guide = _guide(question, nodes, state.links)
    step = domain.sign_step(settings.step_size)
    features = domain.rounded(guide.best_features(state.features, step, settings))
    ascended = _asked(question, nodes, state, features)
    return ascended if ascended.value > state.value else state


def answered_steps(question: InjectionQuestion, state: Injected) -> Injected:
    """Move every injected node to the best of several candidates, by the model's answers.

    Candidates are steps along the sign of the guide's gradient, of `LENGTHS`, pulled by `PULLS`
    towards the mean of the node's targets, where a link that was removed may be kept again; half of
    them keep the norm of the row, by which a model may refuse them. A node takes the candidate
    under which its own targets are worst off. Then all nodes move, or the half that gained most,
    whichever is stronger; if neither is a gain, steps become shorter. It ends after `STEPS`, or
    when two steps in a row gain no more than `MIN_GAIN` for each target.
    """
    nodes, _ = _placed(question, state.links)
    guide, own_rows = _guide(question, nodes, state.links), _own_rows(question, state)
    domain = domain_of(question.threat)
    low, high = question.threat.feature_range
    length = torch.full_like(state.features[:, :1], FIRST_STEP * (high - low) / 2)
    least, idle = MIN_GAIN * state.margins.numel(), 0
    for _ in range(STEPS):
        direction = _direction(question, guide, state.features)
        before = state.of_nodes()
        best, features, factor = before, state.features, torch.full_like(length, SHRINKAGE)
        for relative, pull, keep_norm in product(LENGTHS, PULLS, (False, True)):
            moved = torch.lerp(state.features + relative * length * direction, own_rows, pull)
            if keep_norm:
                moved = F.normalize(moved, dim=1) * state.features.norm(dim=1, keepdim=True)
            answers = _asked(question, nodes, state, domain.rounded(moved))
            better = answers.of_nodes() > best
            best = torch.where(better, answers.of_nodes(), best)
            features = torch.where(better[:, None], answers.features, features)
            factor = torch.where(better[:, None], relative, factor)
        gains = best - before
        together = _strongest(
            _asked(question, nodes, state, torch.where(some[:, None], features, state.features))
            for some in (gains > 0, gains >= gains.median())
        )
        idle = 0 if together.value > state.value + least else idle + 1
        if together.value > state.value:
            state, length = together, length * factor
        else:
            length = length * SHRINKAGE
        if idle == PATIENCE:
            break
    return state


def _direction(question: InjectionQuestion, guide: NodesInGraph, features: Tensor) -> Tensor:
    """Return the sign of the gradient of the margins' sum, float [n, d]."""
    features = features.detach().requires_grad_()
    with torch.enable_grad():
        margins = [margins_of(logits_of(features), question.labels) for logits_of in guide.maps]
        value = torch.stack(margins).tanh().sum()
    (gradient,) = gradients(value, features)
    return gradient.sign()


def exchanged_links(question: InjectionQuestion, state: Injected) -> Injected:
    """Return the state with the links and features that AGIA finds from there, ascended.

    The same state if no target is right, or if there is no gradient in weights of links.
    """
    graph, threat, start = question.graph, question.threat, (state.links, state.features)
    if not state.any_right:
        return state
    exchanged = EXCHANGE.exchanged(graph, threat, question.guide, *start, torch.Generator())
    if isinstance(exchanged, str):
        return state
    links, features = exchanged
    nodes, empty = _placed(question, links)
    features = domain_of(threat).rounded(features)
    return _ascended(question, _asked(question, nodes, empty, features))


def moved_links(question: InjectionQuestion, state: Injected) -> Injected:
    """Return the state with links moved from lost targets to right ones.

    A lost target needs one link. The others are spare, and go to targets that are still right and
    have the label of those that the injected node is made for: the largest share of them (`MOVED`)
    that is a gain, else the smallest, because the ascent that follows may make it one.
    """
    order, moved = _spare(state), state
    for share in MOVED:
        links = _relinked(question, state, order[: int(share * order.numel())])
        nodes, empty = _placed(question, links)
        moved = _asked(question, nodes, empty, state.features)
        if moved.value > state.value:
            break
    return moved


def _spare(state: Injected) -> Tensor:
    """Return the links int64 [s] that lost targets do not need, of the clearest ones first."""
    margins, ends = state.margins.cpu(), state.ends.cpu()
    order = margins[ends].argsort(descending=True, stable=True)
    order = order[margins[ends[order]] > 0]
    at = ends[order]
    by_target = at.argsort(stable=True)
    first = torch.ones_like(at, dtype=torch.bool)
    first[by_target[1:]] = at[by_target[1:]] != at[by_target[:-1]]
    return order[~first]


def _relinked(question: InjectionQuestion, state: Injected, spare: Tensor) -> Tensor:
    """Return `injected_edges` with the links `spare` int64 [s] at other targets."""
    labels, ends = question.labels.cpu(), state.ends.cpu().clone()
    right = (state.margins <= 0).cpu()
    groups = label_groups(state.logits.softmax(1).cpu(), labels)
    new = state.links[0]
    classes = F.one_hot(labels[ends], int(labels.max()) + 1)
    counts = torch.zeros((state.features.shape[0], classes.shape[1]), dtype=torch.int64)
    made_for = counts.index_add(0, new, classes).argmax(1)[new]
    for label in torch.unique(labels[right]).tolist():
        slots = spare[made_for[spare] == label]
        slots = slots[groups[ends[slots]].argsort(stable=True)]
        open_targets = (right & (labels == label)).nonzero().squeeze(1)
        open_targets = open_targets[groups[open_targets].argsort(stable=True)]
        rank = torch.arange(slots.numel())
        ends[slots] = open_targets[rank * open_targets.numel() // max(slots.numel(), 1)]
    links = torch.stack([new, question.threat.targets.cpu()[ends]])
    return _without_repeats(state.links, links, question.graph.num_nodes)


def _without_repeats(before: Tensor, links: Tensor, num_nodes: int) -> Tensor:
    """Return the new links, or the old ones of nodes that have one of them twice."""
    codes = links[0] * num_nodes + links[1]
    _, inverse, times = torch.unique(codes, return_inverse=True, return_counts=True)
    again = torch.zeros(int(links[0].max()) + 1, dtype=torch.bool)
    again[links[0][times[inverse] > 1]] = True
    return torch.where(again[links[0]], before, links)
