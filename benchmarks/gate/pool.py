"""A pool of models: each variant is trained under many seeds and attacked.

    python -m benchmarks.gate pool --data FOLDER/grb-format/planetoid-cora --out cora.npz

Simulated runs draw from such a pool: a repeat is a training seed and an attack seed, and every
model of the pool is attacked with every perturbation. The file is written after each variant; a
later run continues it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from benchmarks.rows import Row, markdown
from grb_check import datasets, models
from grb_check.attacks.budgets import settings_for, threat_of
from grb_check.attacks.registry import load_attack
from grb_check.attacks.scenarios import POISONING
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.selection import expand
from grb_check.cases.suites import SUITES
from grb_check.datasets import Places
from grb_check.evaluation.dataset_cache import load_cache
from grb_check.evaluation.devices import resolve_device, threads_for
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.scores import right_after, right_before
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.victims import TrainedVictims
from grb_check.store.store import Store
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.subject import as_subject


def gcn_without_dropout(num_features: int, num_classes: int) -> nn.Module:
    """Return the reference GCN without dropout."""
    return _without_dropout(models.gcn(num_features, num_classes))


def gcn_ln_without_dropout(num_features: int, num_classes: int) -> nn.Module:
    """Return the reference GCN with layer normalisation and without dropout."""
    return _without_dropout(models.gcn_ln(num_features, num_classes))


def _without_dropout(module: models.GCN) -> models.GCN:
    module.dropout = nn.Dropout(0.0)
    return module


VARIANTS: Final[dict[str, Callable[..., object]]] = {
    "gcn": models.gcn,
    "gcn_no_dropout": gcn_without_dropout,
    "gcn_ln": models.gcn_ln,
    "gcn_ln_no_dropout": gcn_ln_without_dropout,
    "gcn_at": models.gcn_at,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="a dataset, as for --grb-dataset")
    parser.add_argument("--folder", action="append", default=[], help="as --grb-data")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    smoke = SUITES["smoke"]
    attacks = ["/".join(attack) for attack in smoke.attacks]
    parser.add_argument("--attacks", nargs="+", default=attacks, metavar="SCENARIO/NAME")
    parser.add_argument(
        "--difficulties", nargs="+", choices=DIFFICULTIES, default=list(smoke.difficulties)
    )
    parser.add_argument("--metric", help="as --grb-metric")
    parser.add_argument("--seeds", type=int, default=50, help="of training")
    parser.add_argument("--attack-seeds", type=int, default=10)
    parser.add_argument("--store", type=Path, help="of perturbations (default: beside --out)")
    parser.add_argument("--out", type=Path, required=True, help="the pool, an npz file")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Fill the pool; yield a row as each variant is done."""
    store = options.store or options.out.with_suffix(".store")
    attacks = [tuple(attack.split("/", 1)) for attack in options.attacks]
    scenarios = {scenario for scenario, _ in attacks}
    poisons = POISONING in scenarios
    if poisons and len(scenarios) > 1:
        raise SystemExit("poisoning learns on the whole graph: give it a pool of its own")
    places = Places(
        folders=tuple(map(Path, options.folder)),
        training="transductive" if poisons else "inductive",
        metric=options.metric,
    )
    source = datasets.find(options.data, places)
    harness_models = load_cache(source, Store(store), resolve_device("cpu")).harness
    cases = expand([""], [harness_models.dataset.name], options.difficulties, attacks)
    ids = [case.id for case in cases]
    saved = dict(np.load(options.out)) if options.out.exists() else {}
    metric = harness_models.metric
    if saved and (saved["cases"].tolist() != ids or str(saved["metric"]) != metric):
        raise SystemExit(f"{options.out} has other cases or another metric; give another file")
    with threads_for(harness_models.dataset.num_nodes):
        attacked = _Attacked(harness_models, source, cases, options.attack_seeds)
        for variant in options.variants:
            if f"after/{variant}" in saved:
                continue
            saved |= attacked.variant(variant, options.seeds)
            saved |= {"cases": np.array(ids), "metric": np.array(metric)}
            np.savez_compressed(options.out, **saved)
            before = saved[f"before/{variant}"]
            clean = round(100 * float(before[before >= 0].mean()), 1)
            yield {"data": harness_models.dataset.name, "variant": variant, "clean": clean}


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, ("data", "variant", "clean"))


class _Attacked:
    """Every case under every attack seed, for any model."""

    def __init__(
        self,
        harness_models: HarnessModels,
        source: datasets.Source,
        cases: list[Case],
        attack_seeds: int,
    ) -> None:
        self._harness = harness_models
        self._source = source
        self._trials = [[self._trial(case, seed) for case in cases] for seed in range(attack_seeds)]
        self._perturbations = [
            [on_surrogates(trial)[0] for trial in trials] for trials in self._trials
        ]
        self._width = max(int(t.threat.targets.numel()) for t in self._trials[0])

    def variant(self, name: str, seeds: int) -> dict[str, NDArray[np.int8]]:
        """Return whether each target is right: 0 or 1, and -1 if a case has fewer targets.

        `before/NAME` int8 [seeds, cases, targets], `after/NAME` [seeds, attacks, cases, targets].
        """
        attacks, cases = len(self._trials), len(self._trials[0])
        before = np.full((seeds, cases, self._width), -1, np.int8)
        after = np.full((seeds, attacks, cases, self._width), -1, np.int8)
        for seed in range(seeds):
            victim = self._trained(name, seed)
            for attack, trials in enumerate(self._trials):
                for case, trial in enumerate(trials):
                    right = right_after(trial, victim, self._perturbations[attack][case])
                    after[seed, attack, case, : len(right)] = right
                    before[seed, case, : len(right)] = right_before(trial, victim)
        return {f"before/{name}": before, f"after/{name}": after}

    def _trained(self, name: str, seed: int) -> TrainedModel:
        harness_models = self._harness
        victims = TrainedVictims(harness_models.dataset, self._source, harness_models.device)
        with isolated_randomness(seed):
            return victims.get(as_subject(VARIANTS[name]), seed)

    def _trial(self, case: Case, seed: int) -> Trial:
        dataset = self._harness.dataset
        attack = load_attack(case.scenario, case.attack, settings_for(dataset, case.scenario), {})
        threat = threat_of(dataset, case.difficulty, case.scenario, case.attack)
        return Trial(self._harness, attack, threat, case, seed)
