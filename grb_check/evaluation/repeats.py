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
from grb_check.attacks.names import WORST, base_name
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair, load_attack, source_of
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Scores
from grb_check.cases.repeat_results import AttackedBy, RepeatResult
from grb_check.cases.selection import check_on_graphs
from grb_check.cases.suites import check_poisoned_in_training, members_of
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.evaluation.black_box import black_box
from grb_check.evaluation.dataset_cache import DatasetCache
from grb_check.evaluation.fallbacks import transferred_variant
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.references import black_box_references
from grb_check.evaluation.results import shipped_on
from grb_check.evaluation.store_keys import description_of
from grb_check.evaluation.surrogates import check_kinds
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box import white_box, white_box_references
from grb_check.evaluation.worst import describe_worst, worst_result
from grb_check.victims.subject import Subject

Progress: TypeAlias = Callable[[str], AbstractContextManager[None]]


def plan(
    harness_models: HarnessModels,
    case: Case,
    attacks: Mapping[Pair, Attack],
    selected: Sequence[Pair] = (),
) -> tuple[Trial, ...]:
    """Return the trials of a case, with seed 0: one, or of `worst` one for each member.

    Args:
        harness_models: the harness's models on the dataset of the case.
        case: to run.
        attacks: users' attacks by scenario and name.
        selected: attacks of the run as the user selected them, see `worst_members`.

    Raises:
        UsageError: the dataset cannot have this case, or an attack or surrogate is unknown.
    """
    of_graphs = isinstance(harness_models.dataset, GraphDataset)
    if of_graphs:
        check_on_graphs(case)
    if isinstance(harness_models.dataset, Dataset):
        pairs = [(case.scenario, case.attack)]
        check_poisoned_in_training(pairs, transductive=harness_models.dataset.transductive)
    trials = []
    for member in members_of(case, selected, of_graphs=of_graphs):
        usual = settings_for(harness_models.dataset, source_of(case.scenario, member.attack)[0])
        attack = load_attack(case.scenario, member.attack, usual, attacks)
        check_kinds(attack, harness_models.dataset)
        threat = threat_of(harness_models.dataset, case.difficulty, case.scenario, member.attack)
        trials.append(Trial(harness_models, attack, threat, member, seed=0))
    return tuple(trials)


def measure_repeat(
    cache: DatasetCache,
    subject: Subject,
    trials: Sequence[Trial],
    case: Case,
    seed: int,
    *,
    kinds: Sequence[str],
    label: str,
    progress: Progress,
) -> RepeatResult:
    """Train the victim of a repeat, unless the cache has it, and measure a case on it.

    Args:
        cache: of the dataset.
        subject: the model.
        trials: of the case, see `plan`.
        case: to measure.
        seed: of the repeat.
        kinds: of the references to attack as well.
        label: of the repeat, for the progress.
        progress: called with each step; the context that it returns ends with the step.

    Raises:
        ModelError: the model cannot be trained or called, or its output is wrong.
        AttackError: a user's attack raised, or did not return a perturbation.
        BudgetError: an attack did more than its threat allows.
    """
    start = time.perf_counter()
    with progress(f"{case.id}: {label}, training {subject.name}"):
        victim = cache.victims.get(subject, seed)
    trained = time.perf_counter()
    results = []
    for trial in (replace(unseeded, seed=seed) for unseeded in trials):
        needed = () if shipped_on(trial) else kinds
        with progress(f"{trial.case.id}: {label}, attacking, {trial.attack.knowledge}"):
            results.append(_attack(cache, trial, victim, needed))
    names = [trial.case.attack for trial in trials]
    result = worst_result(names, results) if base_name(case.attack) == WORST else results[0]
    measurement = replace(
        result.measurement,
        seconds=time.perf_counter() - start,
        training_seconds=trained - start,
    )
    return replace(result, measurement=measurement)


def _attack(
    cache: DatasetCache, trial: Trial, victim: TrainedModel, kinds: Sequence[str]
) -> RepeatResult:
    attack = white_box if trial.attack.knowledge == "white-box" else black_box
    result = attack(trial, victim, kinds)
    warnings = dict.fromkeys([*cache.notices, *result.warnings])
    return replace(result, warnings=tuple(warnings))


def described(trials: Sequence[Trial]) -> str:
    """Return the description of the attacks of a case; empty if one has no version."""
    texts = [description_of(trial) for trial in trials]
    if len(texts) == 1:
        return texts[0] or ""
    return describe_worst([trial.case.attack for trial in trials], texts)


def reference_scores(
    trials: Sequence[Trial], seed: int, attacked_by: Sequence[AttackedBy], kinds: Sequence[str]
) -> dict[str, Scores]:
    """Attack references as a victim was attacked; of `worst`, the strongest member for each.

    Args:
        trials: of the case, see `plan`.
        seed: of the repeat.
        attacked_by: how its victim was attacked.
        kinds: of the references.
    """
    every = []
    for attack in attacked_by:
        trial = next(trial for trial in trials if trial.case.attack == attack.attack)
        trial = replace(trial, seed=seed)
        if attack.methods:
            transferred = transferred_variant(trial)
            every.append(white_box_references(trial, transferred, attack.methods, kinds))
        else:
            every.append(black_box_references(trial, on_surrogates(trial)[0], kinds))
    return {kind: min((scores[kind] for scores in every), key=_attacked) for kind in kinds}


def _attacked(scores: Scores) -> float:
    return scores.attacked
