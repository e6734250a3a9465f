"""Adversarial training beside plain training: its cost, and the accuracy under attack.

For each seed a model is trained plainly and adversarially, in turn, by the harness itself. Both are
then evaluated on the same black-box perturbations of the full budget, made with the surrogate GCN.
The table has seconds and their ratio, in wall and in processor time, and the attacked accuracy
in %; `weighted` is over all attacks and the clean graph. Return means over the seeds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch_geometric.data import Data

from benchmarks.rows import Row, markdown
from grb_check import datasets
from grb_check.attacks.budgets import settings_for, threat_for
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import apply
from grb_check.cases.case import Case
from grb_check.cases.metrics import weighted_lowest
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.trained_model import predict
from grb_check.evaluation.trial import Trial
from grb_check.gradients.victim import Victim
from grb_check.store.store import Store
from grb_check.training.building import build_victim
from grb_check.victims.subject import as_subject

ATTACKS = ("rnd", "fgsm", "pgd", "speit", "tdgia")
MODELS = ("gcn", "gat", "gin", "appnp", "tagcn", "sage", "sgcn", "rgcn")
CPU = torch.device("cpu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", default=["synthetic-cora"], help="names or folders")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--others", nargs="*", default=(), help="factories to measure as well")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="folder of perturbations to reuse")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset and model, means over the seeds."""
    with TemporaryDirectory() as scratch:
        store = Store(options.store or Path(scratch))
        for name in options.data:
            dataset = datasets.load(datasets.find(name, datasets.Places()))
            with threads_for(dataset.num_nodes):
                graphs = [_graphs(dataset, store, seed) for seed in range(options.seeds)]
                for model in options.models:
                    yield from _compared(dataset, graphs, (model, f"{model}_at"))
                for model in options.others:
                    yield from _compared(dataset, graphs, (model,))


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, tuple(rows[0]))


def _graphs(dataset: Dataset, store: Store, seed: int) -> dict[str, Data]:
    """Return the clean graph and the attacked ones of a repeat."""
    models = HarnessModels(dataset, dataset.fingerprint(), store, CPU)
    threat = threat_for(dataset, "full", "injection")
    graphs = {"clean": dataset.graph}
    for name in ATTACKS:
        attack = load_attack("injection", name, settings_for(dataset, "injection"), {})
        case = Case(dataset.name, "full", "injection", name)
        perturbation, _ = on_surrogates(Trial(models, attack, threat, case, seed))
        graphs[name] = apply(dataset.graph, perturbation)
    return graphs


def _compared(
    dataset: Dataset, graphs: Sequence[dict[str, Data]], models: Sequence[str]
) -> Iterator[Row]:
    """Yield a row for each model; times are compared with the first one's."""
    left: dict[str, list[dict[str, float]]] = {model: [] for model in models}
    wall: dict[str, list[float]] = {model: [] for model in models}
    processor: dict[str, list[float]] = {model: [] for model in models}
    for seed, graphs_of_seed in enumerate(graphs):
        for model in models:
            begin = time.perf_counter(), time.process_time()
            victim = _trained(dataset, model, seed)
            wall[model].append(time.perf_counter() - begin[0])
            processor[model].append(time.process_time() - begin[1])
            left[model].append(_left(dataset, victim, graphs_of_seed, seed))
    first = models[0]
    for model in models:
        yield {
            "data": dataset.name,
            "model": model,
            "seconds": round(statistics.mean(wall[model]), 1),
            "ratio": round(sum(wall[model]) / sum(wall[first]), 2),
            "cpu_ratio": round(sum(processor[model]) / sum(processor[first]), 2),
            **{
                key: round(100 * statistics.mean(one[key] for one in left[model]), 1)
                for key in left[model][0]
            },
        }


def _trained(dataset: Dataset, model: str, seed: int) -> Victim:
    subject = as_subject(f"grb_check.models:{model}")
    built = subject.build(dataset, seed, CPU)
    return build_victim(built, dataset, name=model, seed=seed, device=CPU)


def _left(dataset: Dataset, victim: Victim, graphs: dict[str, Data], seed: int) -> dict[str, float]:
    """Return the accuracy on the test nodes of each graph, and the weighted accuracy."""
    targets = dataset.test["full"]
    truth = dataset.graph.y[targets]
    left = {
        name: float((predict(victim, graph, seed)[targets] == truth).float().mean())
        for name, graph in graphs.items()
    }
    return {**left, "weighted": weighted_lowest(list(left.values()))}
