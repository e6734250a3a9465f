"""Nodes injected into one graph, from blends of features on: by gradients, links and answers.

A model that removes links between dissimilar nodes gives no gradient towards a link that it would
keep: features that start at random or at 0 are never looked at, and cannot learn to be. So the
search starts from features that are similar to those of the targets (`blends`), tried by the
model's answers alone, with the whole budget and with parts of it (`smaller_budgets`). Then AGIA
exchanges links, in few and long steps, or in more where much is left. From there on three parts
alternate (our choice; in none of the papers):

1. Sign steps along the gradient (`feature_search`); where these gain little, others that keep the
   norm of each row, by which a model may refuse them.
2. If the gradient is in doubt, steps that the model's answers choose (`answered_steps`). Injected
   nodes hardly share targets, so that one call judges a candidate of every node.
3. Links go to targets where they do more, or are dropped (`moved_links`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.injection.agia import InjectionAgia
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.shared.blends import best_blend, own_rows
from grb_check.attacks.injection.shared.domains import domain_of
from grb_check.attacks.injection.shared.feature_search import MIN_GAIN, NodesInGraph, gradients
from grb_check.attacks.injection.shared.injected_nodes import (
    Injected,
    InjectionQuestion,
    LinkedNodes,
    as_injected,
    fewest_right,
    strongest,
)
from grb_check.attacks.injection.shared.kept_rows import Kept, ways_to_keep
from grb_check.attacks.injection.shared.links import links_notes, links_per_node
from grb_check.attacks.injection.shared.moved_links import moved_links
from grb_check.attacks.injection.shared.smaller_budgets import held_back, notes_on
from grb_check.attacks.injection.shared.steps import Scale, Step
from grb_check.attacks.injection.shared.weak_targets import clean_probabilities
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import GradientError

VERSION: Final = 4  # raised whenever `search_injections` may find something else
ROUNDS: Final = 8
LEAST_GAIN: Final = 0.005  # of the targets, which a round has to gain
FEW_RIGHT: Final = 0.05  # of the targets, of which no attacker who holds back can make more
BEHIND: Final = 0.1  # of the targets, more than a search usually gains after its first ascent
LITTLE: Final = 0.1  # of the targets that are left, which an ascent has to gain
STEPS: Final = 10  # of `answered_steps` in each round
FIRST_STEP: Final = 0.1  # of half the range
LENGTHS: Final = (0.5, 2.0)  # of candidates, in steps
PULLS: Final = (0.0, 0.2)  # of candidates, towards the targets' mean
SHRINKAGE: Final = 0.6
PATIENCE: Final = 2  # rounds in which links that move gain nothing, and steps in a row


@dataclass(frozen=True)
class Pace:
    """How long a search follows gradients.

    Attributes:
        exchange: of links.
        ascent: of features.
    """

    exchange: InjectionAgia
    ascent: InjectionPgd


SHORT: Final = Pace(
    InjectionAgia(exchanges=20, link_step=0.15, feature_step=0.1, patience=1),
    InjectionPgd(patience=5),
)
# Some models lose more only after steps that gain nothing: with a patience of 5 here, R-GCN+AT
# keeps 3 to 8 points more (`pytest --grb-only --grb-model=grb_check.models:rgcn_at --grb-repeats=3
# --grb-difficulty=hard --grb-attack=injection/pgd+white-box`).
PATIENT: Final = replace(SHORT, ascent=InjectionPgd())
# With a patience of 1 an exchange ends where it happens to gain nothing for ten steps: SGCN+LN
# keeps 1.8 points more, in the mean of six repeats (`sgcn_ln`, else the same command).
LONG: Final = replace(PATIENT, exchange=InjectionAgia(exchanges=100, link_step=0.05, patience=3))


def can_search(threat: Threat) -> bool:
    """Whether a threat is of nodes injected into one graph, and allows any that are linked."""
    into_one = threat.scenario == INJECTION and threat.batch is None
    return into_one and threat.injected_nodes > 0 and links_per_node(threat)[0] > 0


def search_injections(
    question: InjectionQuestion, *, by_answers: bool, starts: Sequence[Perturbation] = ()
) -> Perturbation:
    """Return the strongest injection found.

    From the best blend with the whole budget on, and from given perturbations; where more than a
    few targets are right then, also from the best blend with a part of the budget, unless it is far
    behind after an ascent.

    Args:
        question: of the model.
        by_answers: whether steps that answers choose follow each gradient ascent.
        starts: perturbations within the threat to start from as well.

    Raises:
        GradientError, ModelError: see `feature_search.maximise_each`.
    """
    probabilities = clean_probabilities(question.graph, question.threat, question.model)
    whole, _ = best_blend(question, probabilities)
    given = [state for start in starts if (state := as_injected(question, start)) is not None]
    best, failures = None, []
    for start in (whole, *given):
        try:
            best = _searched(start, best, by_answers)
        except GradientError as error:
            failures.append(error)
    few = best is not None and best.share_right <= FEW_RIGHT
    part = None if few else held_back(whole, probabilities)
    if part is not None:  # which may have a gradient where the whole budget has none
        try:
            best = _searched(part, best, by_answers)
        except GradientError as error:
            failures.append(error)
    if best is None:
        raise failures[0]
    return _as_perturbation(best, question.threat)


def search_kept(question: InjectionQuestion) -> list[Perturbation]:
    """Return the strongest injection found with rows that are kept in each of `ways_to_keep`.

    Of a model that lets other rows have no effect, and so no gradient. None for features that are
    categories, whose rows are all alike, nor where there is no gradient in this way either.
    """
    if question.threat.one_hot:
        return []
    result, x = [], question.graph.x
    for keep in ways_to_keep(x, question.threat):
        model = guide = Kept(question.model, x.shape[0], keep)
        if question.guide is not question.model:
            guide = Kept(question.guide, x.shape[0], keep)
        with suppress(GradientError):
            kept = replace(question, model=model, guide=guide)
            found = search_injections(kept, by_answers=False)
            rows = question.threat.nearest(keep(found.injected_x.to(x)))
            result.append(replace(found, injected_x=rows.cpu()))
    return result


def improve_injections(
    question: InjectionQuestion, starts: Sequence[Perturbation]
) -> Perturbation | None:
    """Return the strongest injection found from given ones on, by gradients and by answers.

    At the `PATIENT` pace, and from the best blend on at the `LONG` one, which takes longer than the
    search that found the given ones and is stronger where that one leaves much.

    Args:
        question: of the model.
        starts: perturbations within the threat, as `search_injections` returns them.

    Returns:
        None if each of them is linked to some node that links may not move to.
    """
    given = [state for start in starts if (state := as_injected(question, start)) is not None]
    if not given:
        return None
    found = [*given, *(_improved(state, by_answers=True, pace=PATIENT) for state in given)]
    probabilities = clean_probabilities(question.graph, question.threat, question.model)
    whole, _ = best_blend(question, probabilities)
    with suppress(GradientError):  # there may be one from the given ones on alone
        found.append(_improved(_ascended(whole, LONG), by_answers=True, pace=LONG))
    return _as_perturbation(fewest_right(found), question.threat)


def _as_perturbation(state: Injected, threat: Threat) -> Perturbation:
    return Perturbation(
        injected_x=state.features.cpu(),
        injected_edges=state.links,
        notes=(
            *links_notes(threat),
            *notes_on(threat, state.question.threat, state.links.shape[1]),
        ),
    )


def _searched(start: Injected, best: Injected | None, by_answers: bool) -> Injected:
    """Return the stronger of the best so far and what is found from another start on."""
    state = _ascended(start, SHORT)
    if best is None:
        return _improved(state, by_answers, SHORT)
    if not by_answers and state.value < best.value - BEHIND * best.margins.numel():
        return best
    return strongest((best, _improved(state, by_answers, SHORT)))


def _improved(state: Injected, by_answers: bool, pace: Pace) -> Injected:
    """Return the strongest state that is found from one that has ascended."""
    state = best = strongest((state, exchanged_links(state, pace)))
    idle = 0
    for _ in range(ROUNDS):
        if by_answers:
            state = answered_steps(state)
        best = strongest((best, state))
        if not best.share_right or idle == PATIENCE:
            break
        state = _ascended(moved_links(state), pace)
        idle = 0 if state.value > best.value + LEAST_GAIN * best.margins.numel() else idle + 1
        best = strongest((best, state))
    return best


def _ascended(state: Injected, pace: Pace) -> Injected:
    """Return the strongest of the state and the ends of gradient ascents from it on."""
    nodes, domain = state.nodes, domain_of(state.question.threat)
    free = domain.sign_step(pace.ascent.step_size)
    result = state
    for step in (free, _of_same_norms(free, state.features)):
        features = domain.rounded(nodes.guide.best_features(state.features, step, pace.ascent))
        result = strongest((result, nodes.asked(features)))
        left = result.margins.numel() - state.value
        if result.value - state.value > LITTLE * left:
            break
    return result


def _of_same_norms(step: Step, start: Tensor) -> Step:
    """Return a step that keeps the norms of the rows float [n, d] that an ascent starts from."""
    norms = start.norm(dim=1, keepdim=True)

    def same(x: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
        moved: Tensor = F.normalize(step(x, gradient, scale), dim=1) * norms
        return moved

    return same


def answered_steps(state: Injected) -> Injected:
    """Move every injected node to the best of several candidates, by the model's answers.

    Candidates are steps along the sign of the guide's gradient, of `LENGTHS`, pulled by `PULLS`
    towards the mean of the node's targets, where a link that was removed may be kept again; half of
    them keep the norm of the row, by which a model may refuse them. A node takes the candidate
    under which its own targets are worst off. Then all nodes move, or the half that gained most,
    whichever is stronger; if neither is a gain, steps become shorter. It ends after `STEPS`, or
    when two steps in a row gain no more than `MIN_GAIN` for each target.
    """
    nodes, threat = state.nodes, state.question.threat
    guide, own, domain = nodes.guide, own_rows(nodes), domain_of(threat)
    low, high = threat.feature_range
    length = torch.full_like(state.features[:, :1], FIRST_STEP * (high - low) / 2)
    least, idle = MIN_GAIN * state.margins.numel(), 0
    for _ in range(STEPS):
        direction = _direction(state.question, guide, state.features)
        before = state.of_nodes()
        best, features, factor = before, state.features, torch.full_like(length, SHRINKAGE)
        for relative, pull, keep_norm in product(LENGTHS, PULLS, (False, True)):
            moved = torch.lerp(state.features + relative * length * direction, own, pull)
            if keep_norm:
                moved = F.normalize(moved, dim=1) * state.features.norm(dim=1, keepdim=True)
            answers = nodes.asked(domain.rounded(moved))
            better = answers.of_nodes() > best
            best = torch.where(better, answers.of_nodes(), best)
            features = torch.where(better[:, None], answers.features, features)
            factor = torch.where(better[:, None], relative, factor)
        gains = best - before
        together = strongest(
            nodes.asked(torch.where(some[:, None], features, state.features))
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


def exchanged_links(state: Injected, pace: Pace = SHORT) -> Injected:
    """Return the state with the links to targets and features that AGIA finds, ascended.

    The same state if no target is right, if there is no gradient in weights of links, or if some
    are links to other nodes than targets.
    """
    question, start = state.question, (state.links, state.features)
    graph, threat = question.graph, question.threat
    if not state.share_right or bool((state.ends >= state.margins.numel()).any()):
        return state
    linked = question.guide_at_targets
    threat = threat if threat.ends is None else replace(threat, ends=threat.targets)
    try:
        exchanged = pace.exchange.exchanged(graph, threat, linked, *start, torch.Generator())
    except GradientError:  # with links of weight 0 to all targets there may be none
        return state
    if isinstance(exchanged, str):
        return state
    links, features = exchanged
    nodes = LinkedNodes(question, links)
    return _ascended(nodes.asked(domain_of(threat).rounded(features)), pace)
