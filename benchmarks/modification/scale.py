"""Time and peak memory of attacks on a graph of 100,000 nodes and 500,000 edges.

The black-box attacks on their surrogate, or those on a model of PyG's layers (`--victim`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from benchmarks.custom_graph import make_custom
from benchmarks.memory import peak_mib
from benchmarks.modification.arena import (
    Make,
    check_names,
    load_weights,
    result,
    run_attack,
    save_weights,
)
from benchmarks.modification.black_box import SEVEN
from benchmarks.modification.victims import VICTIMS
from benchmarks.processes import alone
from benchmarks.rows import Row, markdown
from benchmarks.victims import accuracy, black_box_view, load_dataset, predicted, raw_gcn, trained
from grb_check.attacks.budgets import threat_of
from grb_check.attacks.registry import load_attack

SURROGATE: Final = "surrogate"
WIDTH: Final = 64  # of the hidden layers of `VICTIMS`
COLUMNS: Final = (
    "num_nodes",
    "num_edges",
    "attack",
    "clean",
    "attacked",
    "used",
    "budget",
    "added",
    "removed",
    "nodes",
    "seconds",
    "system_s",
    "loaded_mib",
    "peak_mib",
    "threads",
    "error",
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Work of one process."""

    folder: Path
    weights: Path
    epochs: int
    threads: int
    victim: str
    attack: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--attacks", nargs="+", default=SEVEN, help="names, with modifiers")
    parser.add_argument("--epochs", type=int, default=20, help="of the model's training")
    parser.add_argument("--threads", type=int, default=2, help="above 1, the cores must be idle")
    parser.add_argument("--victim", choices=[SURROGATE, *VICTIMS], default=SURROGATE)
    parser.add_argument("--home", type=Path, help="folder of the graph; default: temporary")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for the surrogate and one for each attack, each from a process of its own."""
    check_names(options.attacks)
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        dataset = alone(make_custom, options.nodes, options.edges, home)
        if "error" in dataset:
            yield dataset
            return
        settings = {
            "folder": Path(dataset["folder"]),
            "weights": Path(temporary) / "weights.npz",
            "epochs": options.epochs,
            "threads": options.threads,
            "victim": options.victim,
        }
        surrogate = alone(train, Job(**settings))
        yield {"attack": "none: training"} | surrogate
        if "error" in surrogate:
            return
        for name in options.attacks:
            yield {"attack": name} | alone(measure, Job(**settings, attack=name))


def table(rows: Sequence[Row]) -> str:
    """Return one line for each row."""
    return markdown(rows, COLUMNS)


def _make(job: Job) -> Make:
    """The surrogate's layers are four, as GRB's."""
    if job.victim == SURROGATE:
        return raw_gcn
    return lambda features, classes: VICTIMS[job.victim](features, classes, WIDTH)


def train(job: Job) -> Row:
    """Train the model and keep its weights."""
    torch.set_num_threads(job.threads)
    dataset = load_dataset(str(job.folder), [])
    begin = time.perf_counter()
    victim = trained(_make(job), dataset, name=job.victim, seed=0, epochs=job.epochs)
    save_weights(victim, job.weights)
    return {
        "num_nodes": dataset.num_nodes,
        "num_edges": dataset.num_edges,
        "clean": accuracy(victim, dataset.graph, dataset.test["full"]),
        "seconds": round(time.perf_counter() - begin, 1),
        "peak_mib": peak_mib(),
        "threads": job.threads,
    }


def measure(job: Job) -> Row:
    """Measure one attack; `peak_mib` includes all that was loaded before it."""
    torch.set_num_threads(job.threads)
    dataset = load_dataset(str(job.folder), [])
    victim = load_weights(_make(job), dataset, job.weights, name=job.victim)
    known = black_box_view(dataset, predicted(dataset.graph, victim))
    limits, loaded = threat_of(dataset, "full", "modification", job.attack), peak_mib()
    before = os.times().system
    run = run_attack(load_attack("modification", job.attack), known, limits, victim, 0)
    system = os.times().system - before
    return {
        "num_nodes": dataset.num_nodes,
        "num_edges": dataset.num_edges,
        "loaded_mib": loaded,
        "system_s": round(system, 1),
        **result(run, dataset, limits, victim),
    }
