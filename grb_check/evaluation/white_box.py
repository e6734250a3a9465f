"""White-box attacks: the attack on the victim itself, its alternatives, and the diagnostics.

The worst case that an evaluator can think of: the attack sees the model itself and the true labels
of all nodes of the split, so that correcting a wrong prediction counts against it. The same attack
is also made on a surrogate, and where the victim gives no usable gradient a search by queries is
made as well; the strongest perturbation counts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.names import without_budgets
from grb_check.attacks.objectives import margin
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.registry import describe
from grb_check.attacks.threat import Perturbation, apply
from grb_check.cases.outcomes import MAIN_REFERENCE, NO_GRAPH, Finding, Method, RepeatResult, Scores
from grb_check.errors import GradientError, ModelError, one_line
from grb_check.evaluation import diagnostics
from grb_check.evaluation.fallbacks import (
    SEARCH,
    Stored,
    random_ones,
    searched,
    transferred_variant,
)
from grb_check.evaluation.own_models import TrainedModel, predict, surrogate_seed
from grb_check.evaluation.trials import (
    PROTOCOL,
    Right,
    Trial,
    describe_threat,
    made_on,
    measured,
    on_model,
    right_after,
    right_before,
    save_scores,
    scores,
    seed_of,
    stored_scores,
)
from grb_check.user_code.randomness import derive_seed, isolated_randomness

Kind: TypeAlias = Literal["features", "edges"]

SAMPLE: Final = 32


def missing_gradients(
    model: DifferentiableModel, graph: Data, targets: Tensor, kind: Kind
) -> tuple[float | None, str]:
    """Return the share of sampled targets whose margin has no usable gradient.

    The gradient is missing, exactly zero or not finite, or the backward pass fails. The margin is
    the largest logit of another class minus the logit of the true class. Isolated targets are not
    sampled.

    Args:
        model: in evaluation mode, parameters frozen.
        graph: `x` [N, d], `edge_index` [2, 2E], true labels `y` [N]; for a set of graphs `batch`
            [N] and `y` [G].
        targets: int64 [t], of which at most `SAMPLE` are sampled.
        kind: take the gradient with respect to all features, or to weights of the targets' edges.

    Returns:
        0 to 1, or None if there is no target to sample; and the last error of the model or of a
        backward pass, empty if there was none.
    """
    sample = _sample(graph, targets)
    if not sample.numel():
        return None, ""
    labels, error = graph.y[sample], ""
    result = 0
    with isolated_randomness(derive_seed("gradient sample", kind)), torch.enable_grad():
        try:
            inputs, logits = _READERS[kind](model, graph, sample)
        except ModelError as raised:  # the model's own check: its output does not depend on them
            return 1.0, one_line(raised)
        if logits is None or not logits.requires_grad:
            return 1.0, ""
        for row in range(sample.numel()):
            try:
                result += _has_gradient(margin(logits[[row]], labels[[row]]), inputs)
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as raised:  # a backward pass that fails or is not implemented
                error = one_line(raised)
    return 1 - result / sample.numel(), error


def _sample(graph: Data, targets: Tensor) -> Tensor:
    """Targets with an edge, int64 [at most SAMPLE], ascending, on the graph's device."""
    degrees = torch.bincount(_owners(graph)[0].cpu(), minlength=graph.y.shape[0])
    connected = targets.cpu()[degrees[targets.cpu()] > 0]
    generator = torch.Generator().manual_seed(derive_seed("gradient sample"))
    chosen = torch.randperm(connected.numel(), generator=generator)[:SAMPLE]
    return connected[chosen].sort().values.to(graph.x.device)


def _owners(graph: Data) -> Tensor:
    """Ends of each edge, or in a set of graphs the graph that they are in, int64 [2, 2E]."""
    batch: Tensor | None = graph.get("batch")
    edge_index: Tensor = graph.edge_index
    return edge_index if batch is None else batch[edge_index]


def _of_features(
    model: DifferentiableModel, graph: Data, sample: Tensor
) -> tuple[Tensor, Tensor | None]:
    x = graph.x.clone().requires_grad_()
    return x, model(x, graph.edge_index)[sample]


def _of_edges(
    model: DifferentiableModel, graph: Data, sample: Tensor
) -> tuple[Tensor, Tensor | None]:
    first, second = graph.edge_index
    at_sample = torch.isin(_owners(graph), sample).any(dim=0)
    pairs = graph.edge_index[:, (first < second) & at_sample]
    weights = torch.ones(pairs.shape[1], device=graph.x.device, requires_grad=True)
    logits_of = model.with_pairs(graph.x, graph.edge_index, pairs, sample)
    return weights, None if logits_of is None else logits_of(weights)


_Reader: TypeAlias = Callable[[DifferentiableModel, Data, Tensor], tuple[Tensor, Tensor | None]]
_READERS: Final[dict[Kind, _Reader]] = {"features": _of_features, "edges": _of_edges}


def _has_gradient(value: Tensor, inputs: Tensor) -> bool:
    (gradient,) = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)
    if gradient is None or not bool(gradient.isfinite().all()):
        return False
    return bool(gradient.count_nonzero())


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

    If the victim gives no gradient, a search by queries takes the place of the attack; if its
    gradients are zero, the search is made besides. The strongest perturbation counts, including the
    one of the same attack on a surrogate. The references are attacked in the same ways as the
    victim. Perturbations of the victim are not stored; the scores of the references are.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        kinds: of the references to attack as well.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the victim fails on the attacked graph.
    """
    transferred = transferred_variant(trial)
    adaptive, reason = _adaptive(trial, victim)
    no_gradient = _no_gradient(trial, victim, adaptive, transferred)
    search = adaptive is None or no_gradient is not None
    attempts = _attempts(trial, victim, adaptive, transferred, search=search)
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
        notes=_notes(trial, attempts, method, reason),
        diagnostics=_findings(trial, victim, attempts, no_gradient),
    )


def _adaptive(trial: Trial, model: TrainedModel) -> tuple[Perturbation | None, str]:
    """The attack on the model itself; None and the reason if there is no gradient to follow."""
    try:
        return on_model(trial, model), ""
    except ModelError as error:
        if not _for_lack_of_a_gradient(error):
            raise
        return None, one_line(error)


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
) -> _Attempts:
    """Try each perturbation on the model, and the best that a search by queries finds."""
    created: dict[Method, Stored] = {}
    if adaptive is not None:
        created["adaptive"] = adaptive, False
    if search:
        created["score-based"] = searched(trial, model, adaptive, transferred), False
    if transferred is not None:
        created["transferred"] = transferred
    return {
        method: _Attempt(*each, right_after(trial, model, each[0]))
        for method, each in created.items()
    }


def _strongest(attempts: _Attempts) -> Method:
    return min(attempts, key=lambda method: int(attempts[method].right.sum()))


def _notes(trial: Trial, attempts: _Attempts, method: Method, reason: str) -> tuple[str, ...]:
    name = without_budgets(trial.case.attack)
    notes = []
    if reason:
        notes.append(f"{name}: {reason.partition(';')[0]}: score-based search instead")
    if method == "score-based" and "adaptive" in attempts:
        notes.append(f"{name}: a search by the model's answers beat its gradients, and counts")
    if method == "transferred":
        beaten = "that search" if reason else "the one on the model itself"
        notes.append(f"{name}: the perturbation made on a surrogate beat {beaten}, and counts")
    return tuple(notes)


def _no_gradient(
    trial: Trial, victim: TrainedModel, adaptive: Perturbation | None, transferred: Stored | None
) -> Finding | None:
    """The finding that the victim lacks the gradient that the attack needs."""
    created = [each for each in (adaptive, transferred and transferred[0]) if each is not None]
    kind = _kind(trial, created)
    known = victim.missing_gradients
    if kind not in known:
        dataset = trial.own.dataset
        targets = dataset.test["full"]
        known[kind] = missing_gradients(victim.victim, dataset.graph, targets, kind)
    return diagnostics.no_gradient(*known[kind], kind)


def _kind(trial: Trial, made: Sequence[Perturbation]) -> Kind:
    """Return the inputs by which an attack with these perturbations differentiates.

    Features of existing nodes are found by gradients; the flips beside them may be random.
    """
    features = any(each.modified_nodes.numel() for each in made)
    return "features" if features or trial.threat.scenario == "injection" else "edges"


def _findings(
    trial: Trial, victim: TrainedModel, attempts: _Attempts, no_gradient: Finding | None
) -> tuple[Finding, ...]:
    """Reasons to doubt that the attack was strong enough."""
    own = attempts.get("adaptive") or attempts["score-based"]
    result = [
        no_gradient,
        *_unsteady(trial, victim, apply(trial.own.dataset.graph, own.perturbation)),
        *_beaten(trial, victim, own, attempts.get("transferred")),
        diagnostics.no_effect(right_before(trial, victim), own.right),
    ]
    return tuple(each for each in result if each is not None)


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
    after = predict(victim.victim, trial.own.dataset.graph, trial.seed)
    kept = None
    if victim.uncalled is not None:
        with isolated_randomness(trial.seed):  # layers of PyG 2.5 draw weights to be copied over
            copied = copy.deepcopy(victim.uncalled)
        uncalled = predict(copied, attacked, trial.seed)[targets]
        kept = float((first != uncalled).float().mean())
    return [diagnostics.kept_state(float((after != victim.predicted).float().mean()), kept)]


def _beaten(
    trial: Trial, victim: TrainedModel, own: _Attempt, transferred: _Attempt | None
) -> Sequence[Finding | None]:
    """Findings that a perturbation made with less knowledge is clearly stronger."""
    result = []
    if transferred is not None:
        what = "the same attack on a surrogate"
        result.append(
            diagnostics.stronger(diagnostics.TRANSFER, own.right, transferred.right, what)
        )
    comparable = not _only_features(own.perturbation)  # random ones flip edges
    others = random_ones(trial) if comparable else []
    random = [right_after(trial, victim, other) for other in others]
    if random:
        best = min(random, key=lambda right: int(right.sum()))
        what = "a random perturbation of the same budget"
        result.append(diagnostics.stronger("random-stronger", own.right, best, what))
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
    own = trial.own
    description = describe(trial.attack)
    if description is None:
        return scores(*_attack_reference(trial, kind, transferred, methods))
    key = own.store.key(
        kind="white-box reference, or transferred",
        protocol=PROTOCOL,
        methods=" and ".join(
            f"{method} v{SEARCH}" if method == "score-based" else method for method in methods
        ),
        dataset=own.fingerprint,
        recipe=own.recipe(kind),
        surrogate=made_on(trial),
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
        return save_scores(trial, key, *_attack_reference(trial, kind, transferred, methods))


def _attack_reference(
    trial: Trial, kind: str, transferred: Stored | None, methods: Sequence[Method]
) -> tuple[Right, Right]:
    reference = trial.own.reference(kind, trial.seed)
    before, no_graph = right_before(trial, reference), kind == NO_GRAPH
    if no_graph and trial.threat.scenario == "injection":
        return before, before
    adaptive = _adaptive(trial, reference)[0] if "adaptive" in methods else None
    search = not no_graph and (adaptive is None or "score-based" in methods)
    attempts = _attempts(trial, reference, adaptive, transferred, search=search)
    return before, attempts[_strongest(attempts)].right if attempts else before
