"""White-box attacks: the attack on the victim itself, its alternatives, and the diagnostics.

The worst case that an evaluator can think of: the attack sees the model itself and the true labels
of all nodes of the split, so that correcting a wrong prediction counts against it. The same attack
is also made on a surrogate, and where the victim gives no usable gradient a search by queries is
made as well; the strongest perturbation counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Final

from grb_check.attacks.names import NOT_EXCHANGED, without_budgets
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import AHEAD, MAIN_REFERENCE, NO_GRAPH, Method, Scores
from grb_check.cases.repeat_results import RepeatResult
from grb_check.errors import GradientError, ModelError, one_line
from grb_check.evaluation.attempts import Attempt, Attempts
from grb_check.evaluation.diagnostics import TRANSFER, nearly_all_lost, stronger
from grb_check.evaluation.edge_types import Found, typed, weakest
from grb_check.evaluation.fallbacks import (
    SEARCH,
    Grounds,
    Stored,
    from_blends,
    random_ones,
    searched,
    transferred_variant,
)
from grb_check.evaluation.fewer_flips import strongest_part
from grb_check.evaluation.open_gradients import OPENED, followed
from grb_check.evaluation.perturbations import on_model
from grb_check.evaluation.references import save_scores, stored_scores
from grb_check.evaluation.results import measured, shipped_on
from grb_check.evaluation.scores import Right, left, right_after, right_before, scores
from grb_check.evaluation.store_keys import description_of, white_box_reference_key
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box_diagnostics import gradient_doubts, kind_of, other_findings

ORDER: Final[tuple[Method, ...]] = ("adaptive", "score-based", "transferred")


def white_box(
    trial: Trial, victim: TrainedModel, kinds: Sequence[str] = (MAIN_REFERENCE,)
) -> RepeatResult:
    """Attack the victim itself, and references with an attack of their own.

    Gradients are those of its values: what stops them in its forward is ignored where it can be
    (`open_gradients`). An injection attack also starts from blends (`fallbacks.from_blends`); the
    stronger result is its own. If there is no gradient, a search by queries takes the place of the
    attack; if the gradient is in doubt (`gradient_checks`), the same attack on a surrogate is
    stronger, from which the search then starts, too, or the model seems robust, the search is made
    besides. A gradient by which the attack leaves hardly a target right is not doubted. The
    strongest perturbation counts; where edges have types, with those of new edges under which it is
    the strongest (`edge_types`). The references are attacked in the same ways as the victim.
    Perturbations of the victim are not stored; the scores of the references are.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        kinds: of the references to attack as well.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the victim fails on the attacked graph.
    """
    transferred = transferred_variant(trial)
    shown = random_ones(trial)[:1] if transferred is None else [transferred[0]]
    model = followed(trial, victim, shown, kind_of(trial, shown))
    attacked, (perturbations, reason, _) = weakest(trial, model, partial(_adaptive, trial))
    adaptive = perturbations[0] if perturbations else None
    attempts = _attempts(trial, attacked, adaptive) | _attempts(trial, model, None, transferred)
    doubts: tuple[Finding, ...] = ()
    if adaptive is None or not nearly_all_lost(attempts["adaptive"].right):
        doubts = gradient_doubts(trial, attacked, perturbations, transferred)
    grounds = Grounds(
        doubted=adaptive is None or bool(doubts),
        misled=adaptive is None or any(doubt.name != "cut-off" for doubt in doubts),
        beaten=_beaten(attempts),
    )
    apart = adaptive is not None and bool(adaptive.flip_targets.numel())  # nothing to exchange
    if not apart and (grounds.doubted or grounds.beaten or _stands(trial, attempts, transferred)):
        attempts["score-based"] = _searched(trial, attacked, adaptive, transferred, grounds)
    method = _strongest(trial, attempts)
    chosen = attempts[method]
    methods = tuple(attempt for attempt in attempts if attempt != "transferred")
    return measured(
        trial,
        victim,
        chosen.perturbation,
        chosen.from_store,
        scores(trial, right_before(trial, victim), chosen.right),
        white_box_references(trial, transferred, methods, kinds),
        method=method,
        methods=methods,
        notes=(
            *_notes(trial, attempts, method, reason, perturbations),
            *[f"{without_budgets(trial.case.attack)}: {OPENED}"] * (model is not victim),
        ),
        diagnostics=(*doubts, *other_findings(trial, victim, attempts)),
        left_by={name: left(trial, attempt.right) for name, attempt in attempts.items()},
    )


def _adaptive(trial: Trial, model: TrainedModel) -> Found:
    """The attack on the model itself, and from blends: the stronger first.

    The blends come first, which all attacks of the same threat share: if they leave nothing, there
    is nothing to attack.
    """
    tried: list[tuple[float, Perturbation]] = []
    reason = ""
    for attack in (from_blends, _itself):
        if any(not share for share, _ in tried):
            break
        try:
            perturbation = attack(trial, model)
        except ModelError as error:
            if not _for_lack_of_a_gradient(error):
                raise
            reason = one_line(error)
            continue
        if perturbation is not None:
            share = left(trial, right_after(trial, model, perturbation))
            tried.insert(0, (share, perturbation))  # of equals the attack itself comes first
    tried.sort(key=lambda made: made[0])
    made = [perturbation for _, perturbation in tried]
    return Found(made, "" if made else reason, tried[0][0] if tried else 1.0)


def _itself(trial: Trial, model: TrainedModel) -> Perturbation:
    return strongest_part(trial, model, on_model(trial, model))


def _for_lack_of_a_gradient(error: ModelError) -> bool:
    """Whether the call failed only because a gradient was asked for."""
    cause = str(error.__cause__)  # torch's message if a forward calls numpy()
    return isinstance(error, GradientError) or "on Tensor that requires grad" in cause


def _attempts(
    trial: Trial,
    model: TrainedModel,
    adaptive: Perturbation | None,
    transferred: Stored | None = None,
) -> dict[Method, Attempt]:
    """Try each perturbation on the model."""
    created: dict[Method, Stored] = {}
    if adaptive is not None:
        created["adaptive"] = adaptive, False
    if transferred is not None:
        created["transferred"] = transferred
    return {
        method: typed(Attempt(*stored, right_after(trial, model, stored[0])), model)
        for method, stored in created.items()
    }


def _beaten(attempts: Attempts) -> bool:
    """Whether the perturbation made on a surrogate is clearly stronger than the model's own."""
    adaptive, transferred = attempts.get("adaptive"), attempts.get("transferred")
    if adaptive is None or transferred is None:
        return False
    return stronger(TRANSFER, adaptive.right, transferred.right, "") is not None


def _stands(trial: Trial, attempts: Attempts, transferred: Stored | None) -> bool:
    """Whether more is left than of the undefended GCN, attacked likewise, by more than `AHEAD`.

    A second search has to agree before a model may be called robust.
    """
    attacked = left(trial, attempts[_strongest(trial, attempts)].right)
    if attacked <= AHEAD:
        return False
    kind, shipped = MAIN_REFERENCE, shipped_on(trial)
    if kind in shipped:
        return attacked > statistics.fmean(shipped[kind].attacked) + AHEAD
    methods = tuple(attempt for attempt in attempts if attempt != "transferred")
    reference = white_box_references(trial, transferred, methods, (kind,))[kind]
    return attacked > reference.attacked + AHEAD


def _searched(
    trial: Trial,
    model: TrainedModel,
    adaptive: Perturbation | None,
    transferred: Stored | None,
    grounds: Grounds,
) -> Attempt:
    """Try the best perturbation that a search by queries finds.

    With several types of new edges, if no attack by gradients has chosen one.
    """

    def search(of_types: TrainedModel) -> Found:
        found = searched(trial, of_types, adaptive, transferred, grounds)
        return Found([found], "", left(trial, right_after(trial, of_types, found)))

    made = search(model) if adaptive is not None else None
    if made is None:
        model, made = weakest(trial, model, search)
    (result,) = made.perturbations
    return typed(Attempt(result, False, right_after(trial, model, result)), model)


def _strongest(trial: Trial, attempts: Attempts) -> Method:
    """The method that leaves least; of equals the first of `ORDER`."""
    tried = [method for method in ORDER if method in attempts]
    return min(tried, key=lambda method: left(trial, attempts[method].right))


def _notes(
    trial: Trial,
    attempts: Attempts,
    method: Method,
    reason: str,
    perturbations: Sequence[Perturbation],
) -> tuple[str, ...]:
    name, chosen = without_budgets(trial.case.attack), attempts[method].perturbation
    notes = [
        note
        for perturbation in perturbations
        for note in perturbation.notes
        if NOT_EXCHANGED in note and note not in chosen.notes
    ]
    if reason:
        notes.append(f"{name}: {reason.partition(';')[0]}: score-based search instead")
    if method == "score-based" and "adaptive" in attempts:
        notes.append(f"{name}: a search by the model's answers beat its gradients, and counts")
    if method == "transferred":
        beaten = "that search" if reason else "the one on the model itself"
        notes.append(f"{name}: the perturbation made on a surrogate beat {beaten}, and counts")
    return tuple(notes)


def white_box_references(
    trial: Trial, transferred: Stored | None, methods: Sequence[Method], kinds: Sequence[str]
) -> dict[str, Scores]:
    """Scores of the references of this repeat, attacked as the victim was, by kind; stored.

    Args:
        trial: of the victim.
        transferred: the perturbation of the same attack on a surrogate.
        methods: tried on the victim besides.
        kinds: of the references.
    """
    return {kind: _reference_scores(trial, transferred, methods, kind) for kind in kinds}


def _reference_scores(
    trial: Trial, transferred: Stored | None, methods: Sequence[Method], kind: str
) -> Scores:
    harness_models = trial.harness
    description = description_of(trial)
    if description is None:
        return scores(trial, *_attack_reference(trial, kind, transferred, methods))
    tried = " and ".join(
        f"{method} v{SEARCH}" if method == "score-based" else method for method in methods
    )
    key = white_box_reference_key(trial, kind, description, tried)
    with harness_models.store.lock(key):
        stored = stored_scores(trial, key)
        if stored is not None:
            return stored
        return save_scores(trial, key, *_attack_reference(trial, kind, transferred, methods))


def _attack_reference(
    trial: Trial, kind: str, transferred: Stored | None, methods: Sequence[Method]
) -> tuple[Right, Right]:
    reference = trial.harness.reference(kind, trial.seed)
    before, no_graph = right_before(trial, reference), kind == NO_GRAPH
    if no_graph and trial.threat.scenario == INJECTION:
        return before, before
    perturbations = _adaptive(trial, reference).perturbations if "adaptive" in methods else []
    adaptive = perturbations[0] if perturbations else None
    attempts = _attempts(trial, reference, adaptive, transferred)
    if not no_graph and (adaptive is None or "score-based" in methods):
        grounds = Grounds(doubted=adaptive is None, misled=adaptive is None)
        attempts["score-based"] = _searched(trial, reference, adaptive, transferred, grounds)
    return before, attempts[_strongest(trial, attempts)].right if attempts else before
