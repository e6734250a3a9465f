"""Strength of the injection attacks: attacked accuracy of surrogate and transfer models."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.injection.arena import (
    DIFFICULTIES,
    EPOCHS,
    MODELS,
    PRUNED,
    TRANSFER,
    Arena,
    accuracies,
    attacked,
    attackers_model,
    injection_attacks,
    prepare,
    run_attack,
    spent,
    threat,
)
from benchmarks.rows import Row, grouped, markdown, mean
from benchmarks.victims import accuracy, black_box_view, load_dataset, predicted
from grb_check.attacks.registry import load_attack
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.surrogates import kinds_for

KEYS = ("data", "difficulty", "knowledge", "attack")
FIGURES = ("seconds", "steps", "edges", "edge_budget", "outside_range")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", required=True, help="folders or names of datasets")
    parser.add_argument("--folder", nargs="+", type=Path, default=[], help="where names are sought")
    parser.add_argument("--difficulty", nargs="+", choices=DIFFICULTIES, default=DIFFICULTIES)
    parser.add_argument("--attacks", nargs="+", help="names, with modifiers; default: all")
    parser.add_argument("--seeds", type=int, default=3, help="of each attack")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of the models' training")
    parser.add_argument("--white-box", action="store_true", help="attack each model directly, too")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset, difficulty, attack, seed and, if white-box, victim."""
    names = options.attacks or injection_attacks()
    for name in names:
        load_attack("injection", name)  # a misspelt name is told before the training
    loaded = [load_dataset(spec, options.folder) for spec in options.data]
    for dataset in loaded:
        with threads_for(dataset.num_nodes):
            arena = prepare(dataset, options.epochs)
            for difficulty in options.difficulty:
                yield _clean(arena, difficulty)
                for name in names:
                    chosen = load_attack("injection", name).knowledge
                    if chosen == "black-box":
                        yield from _black_box(arena, difficulty, name, options.seeds)
                    if options.white_box or chosen == "white-box":
                        yield from _white_box(arena, difficulty, name, options.seeds)


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds."""
    lines = []
    for key, group in grouped(rows, KEYS).items():
        line = dict(zip(KEYS, key, strict=True))
        line |= {
            model: mean(row["accuracy"].get(model) for row in group) for model in (*MODELS, PRUNED)
        }
        line["transfer"] = mean(line[model] for model in TRANSFER)
        line |= {figure: mean(row.get(figure) for row in group) for figure in FIGURES}
        lines.append(line)
    return markdown(lines, (*KEYS, *MODELS, "transfer", PRUNED, *FIGURES))


def _clean(arena: Arena, difficulty: str) -> Row:
    dataset = arena.dataset
    return {
        "data": dataset.name,
        "difficulty": difficulty,
        "attack": "clean",
        "accuracy": accuracies(arena, dataset.graph, dataset.test[difficulty]),
    }


def _black_box(arena: Arena, difficulty: str, name: str, seeds: int) -> Iterator[Row]:
    """Measure attacks that see the surrogates and their predictions, on all four models."""
    dataset, limits = arena.dataset, threat(arena.dataset, difficulty)
    attack = load_attack("injection", name)
    model = attackers_model(arena, attack)
    known = black_box_view(dataset, predicted(dataset.graph, model))
    for seed in range(seeds):
        run = run_attack(attack, known, limits, model, seed)
        graph = attacked(arena, run.perturbation)
        yield {
            "data": dataset.name,
            "difficulty": difficulty,
            "knowledge": "black-box",
            "attack": name,
            "seed": seed,
            "accuracy": accuracies(arena, graph, limits.targets),
            "seconds": round(run.seconds, 3),
            "steps": run.steps,
            **spent(run.perturbation, limits, dataset.num_nodes),
            "notes": run.perturbation.notes,
        }


def _white_box(arena: Arena, difficulty: str, name: str, seeds: int) -> Iterator[Row]:
    """Measure attacks that see each of the four models and the true labels."""
    dataset, limits = arena.dataset, threat(arena.dataset, difficulty)
    attack = load_attack("injection", name)
    if attack.name == "rnd" or len(kinds_for(attack)) > 1:
        return  # neither uses the victim, so that they have no white-box form
    for victim, model in arena.models.items():
        for seed in range(seeds):
            run = run_attack(attack, dataset.graph, limits, model, seed)
            graph = attacked(arena, run.perturbation)
            yield {
                "data": dataset.name,
                "difficulty": difficulty,
                "knowledge": "white-box",
                "attack": name,
                "victim": victim,
                "seed": seed,
                "accuracy": {victim: accuracy(model, graph, limits.targets)},
                "seconds": round(run.seconds, 3),
                "steps": run.steps,
                **spent(run.perturbation, limits, dataset.num_nodes),
                "notes": run.perturbation.notes,
            }
