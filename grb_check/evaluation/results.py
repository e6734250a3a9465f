"""The result of a case in one repeat, put together."""

from __future__ import annotations

from collections.abc import Mapping

from grb_check.attacks.gangs import notes_on_hops
from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.threat import Perturbation, changes_used
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import Exact, Measurement, Method, Reference, Scores
from grb_check.cases.repeat_results import CaseFacts, RepeatResult
from grb_check.datasets.dataset import digest
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.datasets.metric import largest_class
from grb_check.datasets.metric_names import ACCURACY
from grb_check.evaluation.changes import edges_of_attacks
from grb_check.evaluation.diagnostics import budget_unused
from grb_check.evaluation.rankings import rankings_of
from grb_check.evaluation.shipped import shipped_references
from grb_check.evaluation.store_keys import (
    describe_threat,
    description_of,
    shipped_key,
)
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.store.perturbation_bytes import to_bytes


def measured(
    trial: Trial,
    victim: TrainedModel,
    perturbation: Perturbation,
    from_store: bool,
    victim_scores: Scores,
    references: Mapping[str, Scores],
    *,
    method: Method = "black-box",
    methods: tuple[Method, ...] = (),
    notes: tuple[str, ...] = (),
    diagnostics: tuple[Finding, ...] = (),
    left_by: Mapping[Method, float] | None = None,
    exact: Exact | None = None,
) -> RepeatResult:
    """Put the result of a case in a repeat together.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        perturbation: applied to it.
        from_store: whether the store had the perturbation.
        victim_scores: of the victim, without and with it.
        references: scores of the references.
        method: source of the perturbation, see `Measurement`.
        methods: tried on the victim itself, see `RepeatResult`.
        notes: remarks beside those of the perturbation.
        diagnostics: findings beside that on the budget.
        left_by: what each method leaves, see `Measurement`.
        exact: of an attack that tries everything.

    Returns:
        A result whose times are 0; the caller knows them.
    """
    complete = exact or not any(victim_scores.right_after)  # no more changes could do more
    budget = () if complete else _budget_finding(trial, perturbation)
    measurement = Measurement(
        seed=trial.seed,
        victim=victim_scores,
        references=references,
        spent=spent(perturbation),
        from_store=from_store,
        seconds=0.0,
        training_seconds=0.0,
        notes=(*perturbation.notes, *notes, *notes_on_hops(trial.threat, perturbation)),
        method=method,
        diagnostics=(*diagnostics, *budget),
        left_by=left_by or {},
        pretrained=victim.pretrained,
        weights=victim.weights,
        perturbation=digest(perturbation.tensors())[:16],
        exact=exact,
        rankings=rankings_of(trial, victim, perturbation),
    )
    return RepeatResult(
        facts=facts_of(trial),
        measurement=measurement,
        warnings=victim.warnings,
        attack=trial.case.attack,
        methods=methods,
        perturbation=to_bytes(perturbation),
    )


def facts_of(trial: Trial) -> CaseFacts:
    """Return what all repeats of a case have in common."""
    dataset, threat = trial.harness.dataset, trial.threat
    classes, weights = trial.classes, trial.target_weights
    targets = int(threat.targets.numel())
    edges = edges_of_attacks(dataset.given_edges)
    recall = None if isinstance(dataset, GraphDataset) else dataset.recall
    if recall is not None:
        majority = recall.false_alarms  # of a model that draws nodes at random
    else:
        if threat.parts:  # gangs are neighbourhoods, and may be of one class
            classes = dataset.graph.y[dataset.test[trial.case.difficulty]].cpu()
        majority = 1 / len({*classes.tolist()}) if weights else largest_class(classes)
    return CaseFacts(
        targets=targets,
        majority=majority,
        dataset=trial.harness.fingerprint,
        origin=dataset.origin,
        attack=description_of(trial) or "",
        threat="; ".join(filter(None, [describe_threat(threat), edges])),
        target_weights=weights,
        recall="" if recall is None else recall.text,
        shipped=shipped_on(trial),
    )


def shipped_on(trial: Trial) -> Mapping[str, Reference]:
    """Return the references that are shipped for the case of a trial; empty if there are none.

    A run from a pack has other perturbations than these references, and their figures are
    accuracies.
    """
    other = trial.harness.pack is not None or trial.harness.metric != ACCURACY
    return {} if other else shipped_references().get(shipped_key(trial), {})


def _budget_finding(trial: Trial, perturbation: Perturbation) -> tuple[Finding, ...]:
    """The finding of the diagnostic `budget-unused`, if any; a search says why it used less."""
    if trial.threat.parts or any(HELD_BACK in note for note in perturbation.notes):
        return ()  # each part has its own
    second = perturbation.injected_edges[1]
    inner = int((second >= trial.harness.dataset.num_nodes).sum())
    link_ends = int(second.numel()) + inner  # such a link counts for both of its ends
    sizes = {**spent(perturbation), "link_ends": link_ends}
    if trial.threat.ends is not None:
        sizes |= {"added_edges": changes_used(trial.threat, perturbation), "removed_edges": 0}
    result = budget_unused(sizes, trial.threat)
    return () if result is None else (result,)


def spent(perturbation: Perturbation) -> dict[str, int]:
    """Sizes of the parts of a perturbation."""
    return {
        "added_edges": perturbation.added_edges.shape[1],
        "removed_edges": perturbation.removed_edges.shape[1],
        "injected_nodes": perturbation.injected_x.shape[0],
        "injected_edges": perturbation.injected_edges.shape[1],
        "modified_nodes": perturbation.modified_nodes.shape[0],
    }
