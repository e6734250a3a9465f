"""Diagnostics of a white-box attack: reasons to doubt that it was strong enough."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final

from torch_geometric.data import Data

from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation, apply
from grb_check.cases.findings import Finding
from grb_check.evaluation import diagnostics
from grb_check.evaluation.attempts import Attempt, Attempts
from grb_check.evaluation.fallbacks import (
    Stored,
    random_ones,
)
from grb_check.evaluation.gradient_checks import (
    Kind,
    cut_off,
    injected_nodes,
    missing_gradients,
    sampled_margins,
    wrong_gradients,
)
from grb_check.evaluation.perturbations import seed_of
from grb_check.evaluation.scores import right_after, right_before
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.unit_space import graph_in_units, model_in_units
from grb_check.user_code.randomness import isolated_randomness

ON_A_SURROGATE: Final = "the same attack on a surrogate"


def gradient_doubts(
    trial: Trial,
    victim: TrainedModel,
    perturbations: Sequence[Perturbation],
    transferred: Stored | None,
) -> tuple[Finding, ...]:
    """Findings that the gradient which the attack needs is missing, wrong, or blind to links."""
    kind = kind_of(trial, [*perturbations, *(() if transferred is None else transferred[:1])])
    known, graph = victim.missing_gradients, trial.harness.dataset.graph
    model = model_in_units(trial.threat, victim.victim)
    if kind not in known:
        targets = trial.harness.dataset.test["full"]
        in_units = graph_in_units(trial.threat, graph)
        known[kind] = missing_gradients(sampled_margins(model, in_units, targets, kind))
    result = [diagnostics.no_gradient(*known[kind], kind)]
    if perturbations and not perturbations[0].flip_targets.numel():
        attacked = graph_in_units(trial.threat, apply(graph, perturbations[0]))
        injected = injected_nodes(attacked, graph.num_nodes)
        margins = sampled_margins(model, attacked, trial.threat.targets, kind, injected)
        if injected is not None and result[0] is None:
            result[0] = diagnostics.no_gradient(*missing_gradients(margins), "injected features")
        result.append(diagnostics.wrong_gradient(wrong_gradients(margins), kind))
    if (
        perturbations and trial.threat.batch is None and result[0] is None
    ):  # else rounding would look like it
        # Rows of a surrogate's attack, which are unlike the data, are refused first.
        others = [] if transferred is None else [transferred[0]]
        tried = [*perturbations, *others]
        shares = cut_off(victim.victim, graph, tried, trial.threat.targets)
        own, other = max(shares[: len(perturbations)]), max(shares[len(perturbations) :], default=0)
        under = f" under {ON_A_SURROGATE}"
        result.append(diagnostics.cut_off(own) or diagnostics.cut_off(other, under))
    return tuple(finding for finding in result if finding is not None)


def kind_of(trial: Trial, perturbations: Sequence[Perturbation]) -> Kind:
    """Return the inputs by which an attack with these perturbations differentiates.

    Features of existing nodes are found by gradients; the flips beside them may be random.
    """
    features = any(perturbation.modified_nodes.numel() for perturbation in perturbations)
    return "features" if features or trial.threat.scenario == INJECTION else "edges"


def other_findings(trial: Trial, victim: TrainedModel, attempts: Attempts) -> tuple[Finding, ...]:
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
    trial: Trial, victim: TrainedModel, attempt: Attempt, transferred: Attempt | None
) -> Sequence[Finding | None]:
    """Findings that a perturbation made with less knowledge is clearly stronger."""
    result: list[Finding | None] = []
    if diagnostics.nearly_all_lost(attempt.right):
        return result
    if transferred is not None:
        result.append(
            diagnostics.stronger(
                diagnostics.TRANSFER, attempt.right, transferred.right, ON_A_SURROGATE
            )
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
