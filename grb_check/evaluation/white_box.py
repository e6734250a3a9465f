"""White-box attacks: the attack on the victim itself, its alternatives, and the diagnostics.

The worst case that an evaluator can think of: the attack sees the model itself and the true labels
of all nodes of the split, so that correcting a wrong prediction counts against it. The same attack
is also made on a surrogate, and where the victim gives no usable gradient a search by queries is
made as well; the strongest perturbation counts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from torch_geometric.data import Data

from grb_check.attacks.names import NOT_EXCHANGED, without_budgets
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation, apply
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import MAIN_REFERENCE, NO_GRAPH, Method, Scores
from grb_check.cases.repeat_results import RepeatResult
from grb_check.errors import GradientError, ModelError, one_line
from grb_check.evaluation import diagnostics
from grb_check.evaluation.fallbacks import (
    SEARCH,
    Stored,
    from_blends,
    random_ones,
    searched,
    transferred_variant,
)
from grb_check.evaluation.gradient_checks import Kind, cut_off, missing_gradients, wrong_gradients
from grb_check.evaluation.harness_models import surrogate_seed
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trials import (
    PROTOCOL,
    Right,
    Trial,
    describe_threat,
    description_of,
    measured,
    on_model,
    right_after,
    right_before,
    save_scores,
    scores,
    seed_of,
    stored_scores,
    surrogate_source,
)
from grb_check.user_code.randomness import isolated_randomness


class _Attempt(NamedTuple):
    """A perturbation, whether the store had it, and the targets that stay right under it."""

    perturbation: Perturbation
    from_store: bool
    right: Right


# In this order: of equally strong attempts the first counts. "adaptive" or "score-based" is there.
_Attempts: TypeAlias = Mapping[Method, _Attempt]


def white_box(
    trial: Trial, victim: TrainedModel, kinds: Sequence[str] = (MAIN_REFERENCE,)
) -> RepeatResult:
    """Attack the victim itself, and references with an attack of their own.

    An injection attack also starts from blends (`fallbacks.from_blends`); the stronger result is
    its own. If the victim gives no gradient, a search by queries takes the place of the attack; if
    its gradient is in doubt (`gradient_checks`), the search is made besides. The strongest
    perturbation counts, including the one of the same attack on a surrogate. The references are
    attacked in the same ways as the victim. Perturbations of the victim are not stored; the scores
    of the references are.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        kinds: of the references to attack as well.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the victim fails on the attacked graph.
    """
    transferred = transferred_variant(trial)
    perturbations, reason = _adaptive(trial, victim)
    adaptive = perturbations[0] if perturbations else None
    doubts = _doubts(trial, victim, perturbations, transferred)
    search = adaptive is None or bool(doubts)
    misled = adaptive is None or any(doubt.name != "cut-off" for doubt in doubts)
    attempts = _attempts(trial, victim, adaptive, transferred, search=search, misled=misled)
    method = _strongest(attempts)
    chosen = attempts[method]
    methods = tuple(attempt for attempt in attempts if attempt != "transferred")
    return measured(
        trial,
        victim,
        chosen.perturbation,
        chosen.from_store,
        chosen.right,
        white_box_references(trial, transferred, methods, kinds),
        method=method,
        methods=methods,
        notes=_notes(trial, attempts, method, reason, perturbations),
        diagnostics=(*doubts, *_findings(trial, victim, attempts)),
    )


def _adaptive(trial: Trial, model: TrainedModel) -> tuple[list[Perturbation], str]:
    """The attack on the model itself, and from blends: the stronger first.

    None of them, and the reason, if there is no gradient to follow.
    """
    try:
        created = on_model(trial, model), from_blends(trial, model)
    except ModelError as error:
        if not _for_lack_of_a_gradient(error):
            raise
        return [], one_line(error)
    direct, blended = created
    if blended is None:
        return [direct], ""
    return sorted(
        (direct, blended),
        key=lambda perturbation: int(right_after(trial, model, perturbation).sum()),
    ), ""


def _for_lack_of_a_gradient(error: ModelError) -> bool:
    """Whether the call failed only because a gradient was asked for."""
    cause = str(error.__cause__)  # torch's message if a forward calls numpy()
    return isinstance(error, GradientError) or "on Tensor that requires grad" in cause


def _attempts(
    trial: Trial,
    model: TrainedModel,
    adaptive: Perturbation | None,
    transferred: Stored | None,
    *,
    search: bool,
    misled: bool,
) -> _Attempts:
    """Try each perturbation on the model, and the best that a search by queries finds."""
    created: dict[Method, Stored] = {}
    if adaptive is not None:
        created["adaptive"] = adaptive, False
    if search:
        result = searched(trial, model, adaptive, transferred, misled=misled)
        created["score-based"] = result, False
    if transferred is not None:
        created["transferred"] = transferred
    return {
        method: _Attempt(*stored, right_after(trial, model, stored[0]))
        for method, stored in created.items()
    }


def _strongest(attempts: _Attempts) -> Method:
    return min(attempts, key=lambda method: int(attempts[method].right.sum()))


def _notes(
    trial: Trial,
    attempts: _Attempts,
    method: Method,
    reason: str,
    perturbations: Sequence[Perturbation],
) -> tuple[str, ...]:
    name = without_budgets(trial.case.attack)
    others = [
        perturbation
        for perturbation in perturbations
        if perturbation is not attempts[method].perturbation
    ]
    notes = [
        note for perturbation in others for note in perturbation.notes if NOT_EXCHANGED in note
    ]
    if reason:
        notes.append(f"{name}: {reason.partition(';')[0]}: score-based search instead")
    if method == "score-based" and "adaptive" in attempts:
        notes.append(f"{name}: a search by the model's answers beat its gradients, and counts")
    if method == "transferred":
        beaten = "that search" if reason else "the one on the model itself"
        notes.append(f"{name}: the perturbation made on a surrogate beat {beaten}, and counts")
    return tuple(notes)


def _doubts(
    trial: Trial,
    victim: TrainedModel,
    perturbations: Sequence[Perturbation],
    transferred: Stored | None,
) -> tuple[Finding, ...]:
    """Findings that the gradient which the attack needs is missing, wrong, or blind to links."""
    kind = _kind(trial, [*perturbations, *(() if transferred is None else transferred[:1])])
    known, graph = victim.missing_gradients, trial.harness.dataset.graph
    if kind not in known:
        targets = trial.harness.dataset.test["full"]
        known[kind] = missing_gradients(victim.victim, graph, targets, kind)
    result = [diagnostics.no_gradient(*known[kind], kind)]
    if perturbations and not perturbations[0].flip_targets.numel():
        attacked = apply(graph, perturbations[0])
        wrong = wrong_gradients(victim.victim, attacked, trial.threat.targets, kind)
        result.append(diagnostics.wrong_gradient(wrong, kind))
    if (
        perturbations and trial.threat.batch is None and result[0] is None
    ):  # else rounding would look like it
        targets = trial.threat.targets
        share = max(
            cut_off(victim.victim, graph, perturbation, targets) for perturbation in perturbations
        )
        result.append(diagnostics.cut_off(share))
    return tuple(finding for finding in result if finding is not None)


def _kind(trial: Trial, perturbations: Sequence[Perturbation]) -> Kind:
    """Return the inputs by which an attack with these perturbations differentiates.

    Features of existing nodes are found by gradients; the flips beside them may be random.
    """
    features = any(perturbation.modified_nodes.numel() for perturbation in perturbations)
    return "features" if features or trial.threat.scenario == INJECTION else "edges"


def _findings(trial: Trial, victim: TrainedModel, attempts: _Attempts) -> tuple[Finding, ...]:
    """Other reasons to doubt that the attack was strong enough."""
    attempt = attempts.get("adaptive") or attempts["score-based"]
    result = [
        *_unsteady(trial, victim, apply(trial.harness.dataset.graph, attempt.perturbation)),
        *_beaten(trial, victim, attempt, attempts.get("transferred")),
        diagnostics.no_effect(right_before(trial, victim), attempt.right),
    ]
    return tuple(finding for finding in result if finding is not None)


def _unsteady(trial: Trial, victim: TrainedModel, attacked: Data) -> Sequence[Finding | None]:
    """Findings that predictions differ from call to call, by chance or because of kept state."""
    targets = trial.threat.targets.cpu()
    seeds = trial.seed, seed_of("second call", trial)
    first, second = (predict(victim.victim, attacked, seed)[targets] for seed in seeds)
    differing = float((first != second).float().mean())
    if differing:  # a comparison with the calls before the attack would say nothing
        third = predict(victim.victim, attacked, trial.seed)[targets]
        again = float((first != third).float().mean())
        return [diagnostics.kept_state(0.0, None, again) or diagnostics.random_forward(differing)]
    after = predict(victim.victim, trial.harness.dataset.graph, trial.seed)
    changed_share = None
    if victim.uncalled is not None:
        with isolated_randomness(trial.seed):  # layers of PyG 2.5 draw weights to be copied over
            copied = copy.deepcopy(victim.uncalled)
        uncalled = predict(copied, attacked, trial.seed)[targets]
        changed_share = float((first != uncalled).float().mean())
    return [
        diagnostics.kept_state(float((after != victim.predicted).float().mean()), changed_share)
    ]


def _beaten(
    trial: Trial, victim: TrainedModel, attempt: _Attempt, transferred: _Attempt | None
) -> Sequence[Finding | None]:
    """Findings that a perturbation made with less knowledge is clearly stronger."""
    result = []
    if transferred is not None:
        what = "the same attack on a surrogate"
        result.append(
            diagnostics.stronger(diagnostics.TRANSFER, attempt.right, transferred.right, what)
        )
    comparable = not _only_features(attempt.perturbation)  # random ones flip edges
    others = random_ones(trial) if comparable else []
    random = [right_after(trial, victim, other) for other in others]
    if random:
        best = min(random, key=lambda right: int(right.sum()))
        what = "a random perturbation of the same budget"
        result.append(diagnostics.stronger("random-stronger", attempt.right, best, what))
    return result


def _only_features(perturbation: Perturbation) -> bool:
    flips = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    return bool(perturbation.modified_nodes.numel()) and not flips


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
        return scores(*_attack_reference(trial, kind, transferred, methods))
    key = harness_models.store.key(
        kind="white-box reference, or transferred",
        protocol=PROTOCOL,
        methods=" and ".join(
            f"{method} v{SEARCH}" if method == "score-based" else method for method in methods
        ),
        dataset=harness_models.fingerprint,
        recipe=harness_models.recipe(kind),
        surrogate=surrogate_source(trial),
        surrogate_seed=surrogate_seed(),
        attack=description,
        threat=describe_threat(trial.threat),
        difficulty=trial.case.difficulty,
        seed=trial.seed,
    )
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
    perturbations = _adaptive(trial, reference)[0] if "adaptive" in methods else []
    adaptive = perturbations[0] if perturbations else None
    search = not no_graph and (adaptive is None or "score-based" in methods)
    misled = adaptive is None
    attempts = _attempts(trial, reference, adaptive, transferred, search=search, misled=misled)
    return before, attempts[_strongest(attempts)].right if attempts else before
