"""One case in one repeat: train the victim, unless the cache has it, attack it and measure.

What it leaves in the `DatasetCache` saves time only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias

from grb_check.attacks.budgets import settings_for, threat_of
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair, load_attack, source_of
from grb_check.attacks.verdicts import Tell
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Method, Scores
from grb_check.cases.repeat_results import RepeatResult
from grb_check.cases.selection import check_on_graphs
from grb_check.cases.suites import check_poisoned_in_training, check_recall
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.evaluation.black_box import black_box
from grb_check.evaluation.changes import changes_of
from grb_check.evaluation.dataset_cache import DatasetCache
from grb_check.evaluation.exact import exact, exact_references, proves
from grb_check.evaluation.fallbacks import transferred_variant
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.parts import references_of_parts, result_of_parts
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.references import black_box_references
from grb_check.evaluation.results import shipped_on
from grb_check.evaluation.surrogates import check_kinds
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box import white_box, white_box_references
from grb_check.victims.subject import Subject

_Attacking: TypeAlias = Callable[[Trial, TrainedModel, Sequence[str]], RepeatResult]
Progress: TypeAlias = Callable[[str], AbstractContextManager[Tell]]


def trial_of(
    harness_models: HarnessModels, case: Case, attacks: Mapping[Pair, Attack], seed: int = 0
) -> Trial:
    """Return a case in one repeat, with its attack and its threat.

    Args:
        harness_models: the harness's models on the dataset of the case.
        case: to run; not `worst`, which is made of other cases.
        attacks: users' attacks by scenario and name.
        seed: of the repeat.

    Raises:
        UsageError: the dataset cannot have this case, or an attack or surrogate is unknown.
    """
    dataset = harness_models.dataset
    if isinstance(dataset, GraphDataset):
        check_on_graphs(case)
    else:
        pairs = [(case.scenario, case.attack)]
        check_poisoned_in_training(pairs, transductive=dataset.transductive)
        check_recall(pairs, harness_models.metric)
    usual = settings_for(dataset, source_of(case.scenario, case.attack)[0])
    attack = load_attack(case.scenario, case.attack, usual, attacks)
    check_kinds(attack, dataset)
    threat = threat_of(dataset, case.difficulty, case.scenario, case.attack)
    return Trial(harness_models, attack, threat, case, seed)


def measure_repeat(
    cache: DatasetCache,
    subject: Subject,
    trial: Trial,
    *,
    kinds: Sequence[str],
    label: str,
    progress: Progress,
) -> RepeatResult:
    """Train the victim of a repeat, unless the cache has it, attack it and measure.

    Args:
        cache: of the dataset.
        subject: the model.
        trial: the case in its repeat, see `trial_of`.
        kinds: of the references to attack as well; none where the case has shipped ones.
        label: of the repeat, for the progress.
        progress: called with each step; the context that it returns ends with the step, and gives
            what may be told how far the step is.

    Raises:
        ModelError: the model cannot be trained or called, or its output is wrong.
        AttackError: a user's attack raised, or did not return a perturbation.
        BudgetError: an attack did more than its threat allows.
    """
    start = time.perf_counter()
    with progress(f"{trial.case.id}: {label}, training {subject.name}"):
        victim = cache.victims.get(subject, trial.seed)
    trained = time.perf_counter()
    knows = trial.attack.knowledge == "white-box"
    attack: _Attacking
    attack = exact if proves(trial.attack) else white_box if knows else black_box
    with progress(f"{trial.case.id}: {label}, attacking, {trial.attack.knowledge}") as tell:
        trial = replace(trial, tell=tell)
        result = _attacked(attack, trial, victim, () if shipped_on(trial) else kinds)
    measurement = replace(
        result.measurement,
        seconds=time.perf_counter() - start,
        training_seconds=trained - start,
    )
    warnings = dict.fromkeys([*cache.notices, *result.warnings])
    return replace(
        result,
        measurement=measurement,
        warnings=tuple(warnings),
        changes=changes_of(trial.harness.dataset, cache.repaired, victim.victim),
    )


def _attacked(
    attack: _Attacking, trial: Trial, victim: TrainedModel, kinds: Sequence[str]
) -> RepeatResult:
    """Attack a model and the references; the parts of a threat one after another."""
    if not trial.threat.parts:
        return attack(trial, victim, kinds)
    parts = [attack(part, victim, ()) for part in trial.parts]
    result = result_of_parts(trial, victim, parts)
    references = reference_scores(trial, result.methods, kinds)
    return replace(result, measurement=replace(result.measurement, references=references))


def reference_scores(
    trial: Trial, methods: Sequence[Method], kinds: Sequence[str]
) -> dict[str, Scores]:
    """Attack references as a victim was attacked.

    Args:
        trial: of the victim.
        methods: tried on it, see `RepeatResult`.
        kinds: of the references.
    """
    if trial.threat.parts:
        parts = [reference_scores(part, methods, kinds) for part in trial.parts]
        return references_of_parts(trial, parts)
    if proves(trial.attack):
        return exact_references(trial, kinds)
    if methods:
        return white_box_references(trial, transferred_variant(trial), methods, kinds)
    return black_box_references(trial, on_surrogates(trial)[0], kinds)
