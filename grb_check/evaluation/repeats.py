"""One repeat of one model on one dataset: train the victim once, then measure the given cases.

This is the unit of work that can run anywhere: it needs a dataset, a model, trials and a seed, and
returns a measurement for each case. What it leaves in the `DatasetCache` saves time only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias

from grb_check.attacks.budgets import settings_for, threat_for
from grb_check.attacks.names import WORST, base_name, split_budget
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair, load_attack
from grb_check.cases.attack_pairs import on_graphs
from grb_check.cases.case import Case, check_on_graphs
from grb_check.cases.outcomes import Scores
from grb_check.cases.suites import worst_members
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.evaluation.cache import DatasetCache
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.surrogates import check_kinds
from grb_check.evaluation.trials import Measured, Trial, black_box
from grb_check.evaluation.white_box import white_box
from grb_check.evaluation.worst import worst_of
from grb_check.victims.subject import Subject

Progress: TypeAlias = Callable[[str], AbstractContextManager[None]]


def plan(
    own: OwnModels, case: Case, attacks: Mapping[Pair, Attack], selected: Sequence[Pair] = ()
) -> tuple[Trial, ...]:
    """Return the trials of a case, with seed 0: one, or of `worst` one for each member.

    Args:
        own: the harness's models on the dataset of the case.
        case: to run.
        attacks: users' attacks by scenario and name.
        selected: attacks of the run as the user selected them, see `worst_members`.

    Raises:
        UsageError: the dataset cannot have this case, or an attack or surrogate is unknown.
    """
    of_graphs = isinstance(own.dataset, GraphDataset)
    names: tuple[str, ...] = (case.attack,)
    if of_graphs:
        check_on_graphs(case)
        selected = [pair for pair in selected if on_graphs(pair)]
    if base_name(case.attack) == WORST:
        names = worst_members((case.scenario, case.attack), selected)
    trials = []
    for name in names:
        if of_graphs and not on_graphs((case.scenario, name)):
            continue
        attack = load_attack(case.scenario, name, settings_for(own.dataset, case.scenario), attacks)
        check_kinds(attack, own.dataset)
        budget = split_budget(name)[1]
        threat = threat_for(own.dataset, case.difficulty, attack.scenario, budget)
        trials.append(Trial(own, attack, threat, replace(case, attack=name), seed=0))
    return tuple(trials)


def measure_repeat(
    cache: DatasetCache,
    subject: Subject,
    cases: Mapping[Case, Sequence[Trial]],
    seed: int,
    repeats: int,
    progress: Progress,
) -> dict[Case, Measured]:
    """Train the victim of a repeat, unless the cache has it, and measure the cases on it.

    Args:
        cache: of the dataset.
        subject: the model.
        cases: to measure, with their trials, see `plan`.
        seed: of the repeat.
        repeats: number of repeats of the run.
        progress: called with each step; the context that it returns ends with the step.

    Raises:
        ModelError: the model cannot be trained or called, or its output is wrong.
        AttackError: a user's attack raised, or did not return a perturbation.
        BudgetError: an attack did more than its threat allows.
    """
    results = {}
    for case, trials in cases.items():
        start = time.perf_counter()
        label = f"repeat {seed + 1}/{repeats}"
        with progress(f"{case.id}: {label}, training {subject.name}"):
            victim = cache.victims.get(subject, seed, range(seed + 1, repeats))
        trained = time.perf_counter()
        is_worst = base_name(case.attack) == WORST
        measured = []
        for trial in (replace(each, seed=seed) for each in trials):
            key = (subject.key, trial.case, seed)
            known = cache.measurements.get(key) if is_worst else None
            if known is None:
                attack, how = black_box, "attacking"
                if trial.attack.knowledge == "white-box":
                    attack, how = white_box, "attacking, white-box"
                with progress(f"{trial.case.id}: {label}, {how}"):
                    known = attack(trial, victim)
                cache.measurements.add(key, known)
            measured.append(known)
        result = _worst(trials, measured) if is_worst else measured[0]
        measurement = replace(
            result.measurement,
            seconds=time.perf_counter() - start,
            training_seconds=trained - start,
        )
        results[case] = result._replace(measurement=measurement)
    return results


def _worst(trials: Sequence[Trial], measured: Sequence[Measured]) -> Measured:
    """The strongest member of `worst`, with its perturbation."""
    names = [trial.case.attack for trial in trials]
    members = list(zip(names, (each.measurement for each in measured), strict=True))
    worst = worst_of(members, int(trials[0].threat.targets.numel()))
    strongest = next(
        each for each in measured if each.measurement.perturbation == worst.perturbation
    )

    def reference(kind: str) -> Scores:
        return min((each.reference(kind) for each in measured), key=lambda each: each.attacked)

    return strongest._replace(measurement=worst, reference=reference)
