"""White-box injection against models of PyG: CPU seconds and accuracy left.

`attack_s` is the attack on the model itself; `blends` and `answers` are the search that white-box
cases make besides, by gradients and by answers. `case_s` is a whole case of one repeat without a
store: training of the model, the attack, the same attack on a surrogate and on a reference, both
trained, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch

import grb_check
from benchmarks import pyg_models
from benchmarks.injection.arena import threat
from benchmarks.rows import Row, markdown
from benchmarks.victims import accuracy, load_dataset
from grb_check.attacks.injection.blended_search import search_injections
from grb_check.attacks.injection.shared.injected_nodes import InjectionQuestion
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import apply
from grb_check.datasets.dataset import Dataset
from grb_check.gradients.victim import Victim
from grb_check.models import gat_at
from grb_check.training.building import build_victim
from grb_check.user_code.randomness import derive_seed, isolated_randomness

DATA: Final = "synthetic-cora"
SEARCHES: Final = ("blends", "answers")

MODELS: Final[dict[str, Callable[..., object]]] = {
    "GAT": pyg_models.gat,
    "GCN": pyg_models.gcn,
    "GIN": pyg_models.gin,
    "GraphSAGE": pyg_models.sage,
    "GAT+AT": gat_at,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--attacks", nargs="+", default=["pgd", "tdgia", "agia", "blends"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", action="store_true", help="measure whole cases, too")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each model and attack, at full difficulty, on one thread."""
    torch.set_num_threads(1)
    dataset = load_dataset(DATA, [])
    for name in options.models:
        with isolated_randomness(0):
            built = MODELS[name](num_features=dataset.num_features, num_classes=dataset.num_classes)
        victim = build_victim(built, dataset, name=name, seed=0, device=torch.device("cpu"))
        for attack in options.attacks:
            yield {"model": name, "attack": attack, **_measured(dataset, victim, attack, options)}


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, ("model", "attack", "clean", "left", "attack_s", "case_s"))


def _measured(dataset: Dataset, victim: Victim, attack: str, options: argparse.Namespace) -> Row:
    limits, seconds, left = threat(dataset, "full"), [], []
    for seed in range(options.seeds):
        generator = torch.Generator().manual_seed(derive_seed("attack", attack, seed))
        begin = time.process_time()
        if attack in SEARCHES:  # without a seed
            question = InjectionQuestion(dataset.graph, limits, victim, victim)
            perturbation = search_injections(question, by_answers=attack == "answers")
        else:
            loaded = load_attack("injection", attack)
            perturbation = loaded.perturb(dataset.graph, limits, victim, generator)
        seconds.append(time.process_time() - begin)
        left.append(accuracy(victim, apply(dataset.graph, perturbation), limits.targets))
    row: Row = {
        "clean": round(accuracy(victim, dataset.graph, limits.targets), 1),
        "left": round(statistics.fmean(left), 1),
        "attack_s": round(statistics.fmean(seconds), 1),
    }
    if options.cases and attack not in SEARCHES:
        begin = time.process_time()
        grb_check.evaluate(
            MODELS[victim.name],  # type: ignore[arg-type]
            dataset=DATA,
            attack=f"injection/{attack}+white-box",
            repeats=1,
        )
        row["case_s"] = round(time.process_time() - begin, 1)
    return row
