"""Adversarial training against attacks that know the model, by the attack of its iterations.

Each model is trained with each attack in its iterations, and attacked by the harness on the full
test set of synthetic-cora: accuracy in %. `none` is the model without adversarial training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import torch
from torch_geometric.data import Data

import grb_check
from benchmarks.rows import Row, markdown
from grb_check import datasets, models
from grb_check.attacks.injection.agia import InjectionAgia
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.attacks.protocol import Attack
from grb_check.cases.case import Case
from grb_check.evaluation.evaluator import Evaluator
from grb_check.models.defences.adversarial import settings_for
from grb_check.store.place import open_store, place_of
from grb_check.training.nodes import TrainingRun
from grb_check.victims.subject import as_subject
from grb_check.victims.wrappers import SelfTrained

DATASET: Final = "synthetic-cora"
AFTERWARDS: Final = ("pgd", "pgd+white-box", "tdgia+white-box", "agia+white-box")
LR: Final = 0.01  # GRB, Tables 6 to 10
# Steps that adapt their size; PGD starts at random, TDGIA and AGIA choose links by the gradient.
INNER: Final[Mapping[str, Attack | None]] = {
    "fgsm": None,
    "pgd": InjectionPgd(knowledge="white-box", iterations=10, step_size=0.1),
    "tdgia": InjectionTdgia(knowledge="white-box", iterations=10),
    "agia": InjectionAgia(knowledge="white-box", iterations=10),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", default=["gcn", "gat"])
    parser.add_argument("--inner", nargs="+", default=["none", *INNER], choices=["none", *INNER])
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--store", default="off", help="folder of perturbations to reuse")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each model, attack of the training and seed."""
    store = open_store(None if options.store == "off" else place_of(options.store, "--store"))
    source = datasets.find(DATASET)
    for model in options.models:
        for inner in options.inner:
            evaluator = Evaluator(store=store, device="cpu")
            subject = as_subject(_factory(model, inner, options.iterations))
            for seed in range(options.seeds):
                begin = time.process_time()
                evaluator.victim(subject, source, seed)
                row: Row = {
                    "model": model,
                    "inner": inner,
                    "seed": seed,
                    "seconds": round(time.process_time() - begin),
                }
                for name in AFTERWARDS:
                    case = Case(DATASET, "full", "injection", name)
                    scores = evaluator.repeat(subject, source, case, seed, repeats=1)
                    row["clean"] = round(100 * scores.measurement.victim.clean, 1)
                    row[name] = round(100 * scores.measurement.victim.attacked, 1)
                yield row


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, tuple(rows[0]))


def _factory(model: str, inner: str, iterations: int) -> Callable[..., object]:
    def build(num_features: int, num_classes: int, dataset: str) -> object:
        module: torch.nn.Module = getattr(models, model)(num_features, num_classes, dataset)
        if inner == "none":
            return module

        def fit(data: Data, validation: Data | None = None) -> TrainingRun:
            settings = settings_for(dataset, int(data.x.shape[1]), lr=LR, iterations=iterations)
            settings = replace(settings, attack=INNER[inner])
            return grb_check.adversarial_training(module, data, validation, settings=settings)

        return SelfTrained(module, fit)

    return build
