"""Nodes injected into one graph, from blends of features on: by gradients, links and answers.

A model that removes links between dissimilar nodes gives no gradient towards a link that it would
keep: features that start at random or at 0 are never looked at, and cannot learn to be. So the
search starts from features that are similar to those of the targets (`blends`), tried by the
model's answers alone, with the whole budget and with parts of it (`smaller_budgets`). Then AGIA
exchanges links, in fewer and longer steps. From there on three parts alternate (our choice; in none
of the papers):

1. Sign steps along the gradient (`feature_search`), with the settings of PGD; where these gain
   little, others that keep the norm of each row, by which a model may refuse them.
2. If the gradient is in doubt, steps that the model's answers choose (`answered_steps`). Injected
   nodes hardly share targets, so that one call judges a candidate of every node.
3. Links that lost targets do not need go to targets that are still right, or are dropped
   (`moved_links`).
"""

from __future__ import annotations

from collections.abc import Sequence
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
    as_injected,
    asked,
    guided,
    placed,
    strongest,
)
from grb_check.attacks.injection.shared.links import links_notes, links_per_node
from grb_check.attacks.injection.shared.moved_links import moved_links
from grb_check.attacks.injection.shared.smaller_budgets import held_back, notes_on
from grb_check.attacks.injection.shared.steps import Scale, Step
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import GradientError

VERSION: Final = 3  # raised whenever something else may be found
EXCHANGE: Final = InjectionAgia(exchanges=100, link_step=0.05, patience=1)
ROUNDS: Final = 8
FEW_RIGHT: Final = 0.05  # of the targets, of which no attacker who holds back can make more
LITTLE: Final = 0.1  # of the targets that are left, which an ascent has to gain
STEPS: Final = 10  # of `answered_steps` in each round
FIRST_STEP: Final = 0.1  # of half the range
LENGTHS: Final = (0.5, 2.0)  # of candidates, in steps
PULLS: Final = (0.0, 0.2)  # of candidates, towards the targets' mean
SHRINKAGE: Final = 0.6
PATIENCE: Final = 2  # rounds in which links that move gain nothing, and steps in a row


def can_search(threat: Threat) -> bool:
    """Whether a threat is of nodes injected into one graph, and allows any that are linked."""
    into_one = threat.scenario == INJECTION and threat.batch is None
    return into_one and threat.injected_nodes > 0 and links_per_node(threat)[0] > 0


def search_injections(
    question: InjectionQuestion, *, by_answers: bool, starts: Sequence[Perturbation] = ()
) -> Perturbation:
    """Return the strongest injection found.

    From the best blend with the whole budget on, and from given perturbations; where more than a
    few targets are right then, also from the best blend with a part of the budget.

    Args:
        question: of the model.
        by_answers: whether steps that answers choose follow each gradient ascent.
        starts: perturbations within the threat to start from as well.

    Raises:
        GradientError, ModelError: see `feature_search.maximise_each`.
    """
    whole, _ = best_blend(question)
    given = [state for start in starts if (state := as_injected(question, start)) is not None]
    ended, failures = _ends([(question, state) for state in (whole, *given)], by_answers)
    right = min((float((state.margins <= 0).float().mean()) for _, state in ended), default=1.0)
    part = held_back(question, whole) if right > FEW_RIGHT else None
    if part is not None:
        others, more = _ends([part], by_answers)
        ended, failures = ended + others, failures + more
    if not ended:
        raise failures[0]
    used, best = max(ended, key=lambda candidate: candidate[1].value)
    return Perturbation(
        injected_x=best.features.cpu(),
        injected_edges=best.links,
        notes=(*links_notes(question.threat), *notes_on(question.threat, used.threat)),
    )


def _ends(
    starts: Sequence[tuple[InjectionQuestion, Injected]], by_answers: bool
) -> tuple[list[tuple[InjectionQuestion, Injected]], list[GradientError]]:
    """Return what is found from each start, and the errors of those without a gradient.

    A model may have a gradient with a part of the budget alone.
    """
    ended, failures = [], []
    for question, state in starts:
        try:
            ended.append((question, _improved(question, state, by_answers)))
        except GradientError as error:
            failures.append(error)
    return ended, failures


def _improved(question: InjectionQuestion, start: Injected, by_answers: bool) -> Injected:
    """Return the strongest state that is found from a start on."""
    best = _ascended(question, start)
    best = strongest((best, exchanged_links(question, best)))
    state, idle = best, 0
    for _ in range(ROUNDS):
        if by_answers:
            state = answered_steps(question, state)
        best = strongest((best, state))
        if not best.any_right or idle == PATIENCE:
            break
        state = _ascended(question, moved_links(question, state))
        idle = 0 if state.value > best.value + MIN_GAIN * best.margins.numel() else idle + 1
        best = strongest((best, state))
    return best


def _ascended(question: InjectionQuestion, state: Injected) -> Injected:
    """Return the strongest of the state and the ends of gradient ascents from it on."""
    nodes, _ = placed(question, state.links)
    domain, settings = domain_of(question.threat), InjectionPgd()
    guide = guided(question, nodes, state.links)
    free = domain.sign_step(settings.step_size)
    result = state
    for step in (free, _of_same_norms(free, state.features)):
        features = domain.rounded(guide.best_features(state.features, step, settings))
        result = strongest((result, asked(question, nodes, state, features)))
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


def answered_steps(question: InjectionQuestion, state: Injected) -> Injected:
    """Move every injected node to the best of several candidates, by the model's answers.

    Candidates are steps along the sign of the guide's gradient, of `LENGTHS`, pulled by `PULLS`
    towards the mean of the node's targets, where a link that was removed may be kept again; half of
    them keep the norm of the row, by which a model may refuse them. A node takes the candidate
    under which its own targets are worst off. Then all nodes move, or the half that gained most,
    whichever is stronger; if neither is a gain, steps become shorter. It ends after `STEPS`, or
    when two steps in a row gain no more than `MIN_GAIN` for each target.
    """
    nodes, _ = placed(question, state.links)
    guide, own = guided(question, nodes, state.links), own_rows(question, state)
    domain = domain_of(question.threat)
    low, high = question.threat.feature_range
    length = torch.full_like(state.features[:, :1], FIRST_STEP * (high - low) / 2)
    least, idle = MIN_GAIN * state.margins.numel(), 0
    for _ in range(STEPS):
        direction = _direction(question, guide, state.features)
        before = state.of_nodes()
        best, features, factor = before, state.features, torch.full_like(length, SHRINKAGE)
        for relative, pull, keep_norm in product(LENGTHS, PULLS, (False, True)):
            moved = torch.lerp(state.features + relative * length * direction, own, pull)
            if keep_norm:
                moved = F.normalize(moved, dim=1) * state.features.norm(dim=1, keepdim=True)
            answers = asked(question, nodes, state, domain.rounded(moved))
            better = answers.of_nodes() > best
            best = torch.where(better, answers.of_nodes(), best)
            features = torch.where(better[:, None], answers.features, features)
            factor = torch.where(better[:, None], relative, factor)
        gains = best - before
        together = strongest(
            asked(question, nodes, state, torch.where(some[:, None], features, state.features))
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
    try:
        exchanged = EXCHANGE.exchanged(graph, threat, question.guide, *start, torch.Generator())
    except GradientError:  # with links of weight 0 to all targets there may be none
        return state
    if isinstance(exchanged, str):
        return state
    links, features = exchanged
    nodes, empty = placed(question, links)
    features = domain_of(threat).rounded(features)
    return _ascended(question, asked(question, nodes, empty, features))
