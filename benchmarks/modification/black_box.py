"""Strength of GRB's seven black-box attacks on a folder in GRB's format, beside GRB's code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import torch

from benchmarks.modification.arena import check_names, limits_of, result, run_attack
from benchmarks.rows import Row, grouped, markdown, mean
from benchmarks.victims import accuracy, black_box_view, load_dataset, predicted
from grb_check.attacks.names import base_name
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import apply
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.surrogates import surrogate
from grb_check.gradients.rescaled import AnyVictim
from grb_check.user_code.randomness import derive_seed

SEVEN: Final = ("rnd", "flip", "dice", "nea", "stack", "fga", "pgd")
NARROW: Final = (  # what GRB's code does: it removes only, but for DICE and FGA
    "rnd+restrict=deletions",
    "flip+restrict=deletions",
    "nea+restrict=deletions",
    "stack+restrict=deletions",
    "fga+restrict=deletions",
    "pgd+structure=deletions",
)
# Published measurement of GRB's code, github.com/THUDM/grb at 904f47b: Planetoid Cora in GRB's
# format, 263 edges, 810 targets, a GCN of the surrogate's shape that gets 85.9 % right on the clean
# graph. Percent left, seconds on another machine (2 threads), and what it changed.
REFERENCE: Final[Mapping[str, tuple[float, float, str]]] = MappingProxyType(
    {
        "rnd": (85.0, 0.018, "+0 -258"),
        "dice": (82.5, 0.016, "+106 -156"),
        "flip": (83.8, 0.016, "+0 -263"),
        "nea": (84.8, 4.626, "+0 -209"),
        "stack": (83.1, 3.624, "+0 -207"),
        "fga": (82.5, 36.475, "+263 -0"),
        "pgd": (70.0, 11.747, "+0 -255, 37 nodes"),
    }
)
KEYS: Final = ("data", "attack")
FIGURES: Final = (
    "clean",
    "attacked",
    "second GCN, clean",
    "second GCN",
    "mean",
    "used",
    "added",
    "removed",
    "nodes",
    "seconds",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="folder or name of a dataset")
    parser.add_argument("--folder", nargs="+", type=Path, default=[], help="where names are sought")
    parser.add_argument("--attacks", nargs="+", default=(*SEVEN, *NARROW), help="with modifiers")
    parser.add_argument("--seeds", type=int, default=3, help="of models and attack together")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each seed and attack."""
    check_names(options.attacks)
    dataset = load_dataset(options.data, options.folder)
    with threads_for(dataset.num_nodes):
        for seed in range(options.seeds):
            yield from _of_seed(dataset, options.attacks, seed)


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds, and the measured results of GRB's code."""
    lines = []
    for key, group in grouped(rows, KEYS).items():
        line = dict(zip(KEYS, key, strict=True))
        line |= {figure: mean(row[figure] for row in group) for figure in FIGURES}
        lines.append(line | {"budget": group[0]["budget"], **group[0]["reference"]})
    reference = ("GRB leaves, published", "GRB, s", "GRB, changes")
    return markdown(lines, (*KEYS, *FIGURES, "budget", *reference))


def _of_seed(dataset: Dataset, names: Sequence[str], seed: int) -> Iterator[Row]:
    """Yield results of attacks that see the first GCN and its predictions, on both GCNs."""
    known_model, second = (_gcn(dataset, role, seed) for role in ("surrogate", "second"))
    known = black_box_view(dataset, predicted(dataset.graph, known_model))
    limits = limits_of(dataset)
    for name in names:
        run = run_attack(load_attack("modification", name), known, limits, known_model, seed)
        row = result(run, dataset, limits, known_model)
        left = accuracy(second, apply(dataset.graph, run.perturbation), limits.targets)
        yield {
            "data": dataset.name,
            "attack": name,
            "seed": seed,
            **row,
            "second GCN, clean": accuracy(second, dataset.graph, limits.targets),
            "second GCN": left,
            "mean": mean([row["attacked"], left]),
            "reference": _reference(name),
        }


def _gcn(dataset: Dataset, role: str, seed: int) -> AnyVictim:
    own_seed = derive_seed("benchmark", role, seed)
    return surrogate(dataset, seed=own_seed, device=torch.device("cpu"))


def _reference(name: str) -> Row:
    left, seconds, changes = REFERENCE.get(base_name(name), (None, None, None))
    return {"GRB leaves, published": left, "GRB, s": seconds, "GRB, changes": changes}
