"""An attack that adapts to the victim, what stands in where that gives no gradient, and doubts.

The worst case that an evaluator can think of: the attack sees the model itself and the true labels
of all nodes of the split, so that making a wrong answer right counts against it. Beside it stands
the same attack on a surrogate; the stronger one counts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric.data import Data

from grb_check.attacks.names import split_budget
from grb_check.attacks.registry import describe
from grb_check.attacks.threat import Perturbation, apply
from grb_check.cases.outcomes import Finding, Method, Scores
from grb_check.errors import GradientError, ModelError, one_line
from grb_check.evaluation import diagnostics
from grb_check.evaluation.fallbacks import Made, random_ones, searched, transferred_variant
from grb_check.evaluation.gradient_sample import Kind, missing_gradients
from grb_check.evaluation.own_models import Ready, predict, surrogate_seed
from grb_check.evaluation.surrogates import kinds_for
from grb_check.evaluation.trials import (
    PROTOCOL,
    Measured,
    Right,
    Trial,
    describe_threat,
    on_model,
    right_after,
    right_before,
    save_scores,
    scores,
    seed_of,
    stored_scores,
    unused,
)


@dataclass(frozen=True)
class _Attempt:
    """A perturbation, where it came from, and which targets it leaves right."""

    method: Method
    perturbation: Perturbation
    from_store: bool
    right: Right


@dataclass(frozen=True)
class _Tried:
    """What there is against one model; `adaptive` or `searched` there is.

    Attributes:
        adaptive: the attack on the model itself; None where that was impossible.
        searched: by the model's answers; None where there are gradients to go by.
        transferred: the same attack on a surrogate; None where the attack has no such variant.
    """

    adaptive: _Attempt | None
    searched: _Attempt | None
    transferred: _Attempt | None

    @property
    def own(self) -> list[_Attempt]:
        """Those that look at the model itself, one or two."""
        return [each for each in (self.adaptive, self.searched) if each is not None]

    @property
    def strongest(self) -> _Attempt:
        """Which leaves fewest targets right; of equals the adaptive one, then the search."""
        moved = [] if self.transferred is None else [self.transferred]
        return min([*self.own, *moved], key=lambda each: int(each.right.sum()))


@dataclass(frozen=True)
class _Gradients:
    """For how many targets the victim has a gradient, of what the attack changes.

    Attributes:
        kind: features or edges.
        missing: see `missing_gradients`.
    """

    kind: Kind
    missing: float | None

    @property
    def finding(self) -> Finding | None:
        return diagnostics.no_gradient(self.missing, self.kind)


def white_box(trial: Trial, ready: Ready) -> Measured:
    """Attack the victim itself, and the reference with an attack of its own.

    Where the victim gives no gradient, a search by its answers stands in for the attack; where its
    gradients are zero, it stands beside it. The strongest counts, the attack on a surrogate among
    them. The reference meets the same kinds of attempts as the victim. What was made of the victim
    is not stored; the reference's scores are.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the victim fails on the attacked graph.
    """
    transferred = transferred_variant(trial)
    adaptive, reason = _adaptive(trial, ready)
    gradients = _gradients(trial, ready, adaptive, transferred)
    search = adaptive is None or gradients.finding is not None
    tried = _try(trial, ready, adaptive, transferred, search=search)
    chosen, before = tried.strongest, right_before(trial, ready)
    return Measured(
        chosen.perturbation,
        chosen.from_store,
        victim=scores(before, chosen.right),
        reference=_reference_scores(trial, transferred, [each.method for each in tried.own]),
        method=chosen.method,
        notes=_notes(trial, tried, reason),
        diagnostics=_diagnosed(trial, ready, tried, gradients, before),
    )


def _adaptive(trial: Trial, ready: Ready) -> tuple[Perturbation | None, str]:
    """The attack on the model itself; None where that is impossible, and why."""
    try:
        return on_model(trial, ready), ""
    except ModelError as error:
        if not _for_want_of_a_gradient(error):
            raise
        return None, one_line(error)


def _try(
    trial: Trial,
    ready: Ready,
    adaptive: Perturbation | None,
    transferred: Made | None,
    *,
    search: bool,
) -> _Tried:
    """Which targets each leaves right, and what a search makes of them where one is wanted."""
    graph = trial.own.dataset.graph

    def attempt(method: Method, perturbation: Perturbation, from_store: bool = False) -> _Attempt:
        right = right_after(trial, ready, apply(graph, perturbation))
        return _Attempt(method, perturbation, from_store, right)

    found = searched(trial, ready, adaptive, transferred) if search else None
    return _Tried(
        None if adaptive is None else attempt("adaptive", adaptive),
        None if found is None else attempt("score-based", found),
        None if transferred is None else attempt("transferred", *transferred),
    )


def _for_want_of_a_gradient(error: ModelError) -> bool:
    """Whether a model would have answered, had it not been asked for a gradient."""
    told = str(error.__cause__)  # torch's, where a forward calls numpy()
    return isinstance(error, GradientError) or "on Tensor that requires grad" in told


def _notes(trial: Trial, tried: _Tried, reason: str) -> tuple[str, ...]:
    name = split_budget(trial.case.attack)[0]
    notes = []
    if reason:
        notes.append(f"{name}: {reason.partition(';')[0]}: score-based search instead")
    method = tried.strongest.method
    if method == "score-based" and tried.adaptive is not None:
        notes.append(f"{name}: a search by the model's answers beat its gradients, and counts")
    if method == "transferred":
        beaten = "that search" if reason else "the one on the model itself"
        notes.append(f"{name}: the perturbation made on a surrogate beat {beaten}, and counts")
    return tuple(notes)


def _gradients(
    trial: Trial, ready: Ready, adaptive: Perturbation | None, transferred: Made | None
) -> _Gradients:
    """What is missing of the gradient that the attack needs; looked at once for each victim."""
    made = [each for each in (adaptive, transferred and transferred[0]) if each is not None]
    kind = _kind(trial, made)
    if kind not in ready.gradients:
        dataset = trial.own.dataset
        ready.gradients[kind] = missing_gradients(
            ready.victim, dataset.graph, dataset.test["full"], kind
        )
    return _Gradients(kind, ready.gradients[kind])


def _diagnosed(
    trial: Trial, ready: Ready, tried: _Tried, gradients: _Gradients, before: Right
) -> tuple[Finding, ...]:
    """What gives reason to doubt that the attack was strong enough."""
    own, chosen = tried.own[0], tried.strongest
    found = [
        gradients.finding,
        *_unsteady(trial, ready, apply(trial.own.dataset.graph, own.perturbation)),
        *_beaten(trial, ready, tried),
        diagnostics.no_effect(before, own.right),
        *unused(trial, chosen.perturbation),
    ]
    return tuple(each for each in found if each is not None)


def _kind(trial: Trial, made: Sequence[Perturbation]) -> Kind:
    """With respect to what an attack that does this, to a model or a surrogate, needs a gradient.

    Features of existing nodes are found by gradients; the flips beside them may be random.
    """
    features = any(each.modified_nodes.numel() for each in made)
    return "features" if features or trial.threat.scenario == "injection" else "edges"


def _only_features(perturbation: Perturbation) -> bool:
    flips = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    return bool(perturbation.modified_nodes.numel()) and not flips


def _unsteady(trial: Trial, ready: Ready, attacked: Data) -> Sequence[Finding | None]:
    """Whether answers differ from call to call, for randomness or for what was kept."""
    targets = trial.threat.targets.cpu()
    seeds = trial.seed, seed_of("second call", trial)
    first, second = (predict(ready.victim, attacked, seed)[targets] for seed in seeds)
    differing = float((first != second).float().mean())
    if differing:  # then the rest says nothing
        return [diagnostics.random_forward(differing)]
    after = predict(ready.victim, trial.own.dataset.graph, trial.seed)
    kept = None
    if ready.fresh is not None:
        fresh = predict(copy.deepcopy(ready.fresh), attacked, trial.seed)[targets]
        kept = float((first != fresh).float().mean())
    return [diagnostics.kept_state(float((after != ready.predicted).float().mean()), kept)]


def _beaten(trial: Trial, ready: Ready, tried: _Tried) -> Sequence[Finding | None]:
    """Whether what needs less knowledge is clearly stronger."""
    own, moved = tried.own[0], tried.transferred
    found = []
    if moved is not None:
        what = "the same attack on a surrogate"
        found.append(diagnostics.stronger("transfer-stronger", own.right, moved.right, what))
    graph = trial.own.dataset.graph
    comparable = not _only_features(own.perturbation)  # random ones flip edges
    others = random_ones(trial) if comparable else []
    random = [right_after(trial, ready, apply(graph, each)) for each in others]
    if random:
        best = min(random, key=lambda right: int(right.sum()))
        what = "a random perturbation of the same budget"
        found.append(diagnostics.stronger("random-stronger", own.right, best, what))
    return found


def _reference_scores(trial: Trial, transferred: Made | None, methods: Sequence[Method]) -> Scores:
    """How the reference GCN of this repeat fares under the same, made of itself; kept.

    Args:
        trial: of the victim.
        transferred: what the victim met of it.
        methods: how the victim itself was attacked, which is how the reference is.
    """
    own = trial.own
    description = describe(trial.attack)
    if description is None:
        return scores(*_attack_reference(trial, transferred, methods))
    key = own.store.key(
        kind="white-box reference, or transferred",
        protocol=PROTOCOL,
        methods=" and ".join(methods),
        dataset=own.fingerprint,
        recipe=own.recipe("gcn"),
        surrogate="; ".join(own.recipe(kind) for kind in kinds_for(trial.attack)),
        surrogate_seed=surrogate_seed(),
        attack=description,
        threat=describe_threat(trial.threat),
        difficulty=trial.case.difficulty,
        seed=trial.seed,
    )
    with own.store.lock(key):
        stored = stored_scores(trial, key)
        if stored is not None:
            return stored
        return save_scores(trial, key, *_attack_reference(trial, transferred, methods))


def _attack_reference(
    trial: Trial, transferred: Made | None, methods: Sequence[Method]
) -> tuple[Right, Right]:
    ready = trial.own.reference(trial.seed)
    adaptive = _adaptive(trial, ready)[0] if "adaptive" in methods else None
    search = adaptive is None or "score-based" in methods
    tried = _try(trial, ready, adaptive, transferred, search=search)
    return right_before(trial, ready), tried.strongest.right
