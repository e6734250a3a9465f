"""Attacked accuracy against iterations and against the budget, as JSON and SVG plots."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.injection.arena import (
    DIFFICULTIES,
    EPOCHS,
    LINKS,
    SURROGATE,
    TRANSFER,
    Arena,
    accuracies,
    attacked,
    attackers_model,
    injection_attacks,
    prepare,
    run_attack,
    threat,
    with_settings,
)
from benchmarks.plots import Panel, check_plots, draw
from benchmarks.rows import Row, grouped, markdown, mean
from benchmarks.victims import black_box_view, load_dataset, predicted
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Threat
from grb_check.evaluation.devices import threads_for

ITERATIONS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
NODES: Final = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the usual number of injected nodes
EDGES: Final = (1, 2, 4, 8, 12, 16, LINKS)
AXES: Final = {
    "iterations": "iterations in each round",
    "nodes": "injected nodes",
    "edges": "edges at each injected node",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="folder or name of a dataset")
    parser.add_argument("--folder", nargs="+", type=Path, default=[], help="where names are sought")
    parser.add_argument("--out", type=Path, required=True, help="folder of curves.json and plots")
    parser.add_argument("--difficulty", choices=DIFFICULTIES, default="full")
    parser.add_argument("--attacks", nargs="+", help="names, with modifiers; default: all")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--iterations", nargs="+", type=int, default=ITERATIONS)
    parser.add_argument("--seeds", type=int, default=1, help="of each attack")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of the models' training")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each attack, axis, point and seed."""
    check_plots()
    names = options.attacks or injection_attacks()
    attacks = {name: load_attack("injection", name) for name in names}
    dataset = load_dataset(options.data, options.folder)
    measured = []
    with threads_for(dataset.num_nodes):
        arena = prepare(dataset, options.epochs)
        for name, attack in attacks.items():
            for row in _of_attack(arena, attack, options):
                row = {"data": dataset.name, "attack": name} | row
                measured.append(row)
                yield row
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "curves.json").write_text(json.dumps(measured, indent=1) + "\n")
    for axis in options.axes:
        _draw([row for row in measured if row["axis"] == axis], axis, options.out)


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds."""
    keys, figures = ("data", "attack", "axis", "at"), ("surrogate", "transfer", "steps", "seconds")
    lines = [
        dict(zip(keys, key, strict=True))
        | {figure: mean(row[figure] for row in group) for figure in figures}
        for key, group in grouped(rows, keys).items()
    ]
    return markdown(lines, (*keys, *figures))


def _of_attack(arena: Arena, attack: Attack, options: argparse.Namespace) -> Iterator[Row]:
    usual = threat(arena.dataset, options.difficulty)
    points: list[tuple[str, float, Attack, Threat]] = []
    if "iterations" in options.axes:
        points += [
            ("iterations", n, with_settings(attack, iterations=n, patience=None), usual)
            for n in options.iterations
        ]
    if "nodes" in options.axes:
        counts = [round(share * usual.injected_nodes) for share in NODES]
        points += [
            ("nodes", n, attack, threat(arena.dataset, options.difficulty, nodes=n)) for n in counts
        ]
    if "edges" in options.axes:
        points += [
            ("edges", n, attack, threat(arena.dataset, options.difficulty, links=n)) for n in EDGES
        ]
    for axis, at, variant, limits in points:
        for seed in range(options.seeds):
            yield {"axis": axis, "at": at, "seed": seed} | _point(arena, variant, limits, seed)


def _point(arena: Arena, attack: Attack, limits: Threat, seed: int) -> Row:
    model = attackers_model(arena, attack)
    known = black_box_view(arena.dataset, predicted(arena.dataset.graph, model))
    run = run_attack(attack, known, limits, model, seed)
    percentages = accuracies(arena, attacked(arena, run.perturbation), limits.targets)
    return {
        "accuracy": percentages,
        "surrogate": percentages[SURROGATE],
        "transfer": mean(percentages[name] for name in TRANSFER),
        "seconds": round(run.seconds, 3),
        "steps": run.steps,
    }


def _draw(rows: Sequence[Row], axis: str, folder: Path) -> None:
    """Surrogate and transfer models side by side, one line an attack."""
    panels = []
    for title, figure in (("surrogate", "surrogate"), ("mean of transfer models", "transfer")):
        lines = {
            attack: [
                (at, mean(row[figure] for row in some) or 0.0)
                for (at,), some in grouped(group, ("at",)).items()
            ]
            for (attack,), group in grouped(rows, ("attack",)).items()
        }
        title = f"{title}, accuracy in %"
        panels.append(Panel(title, AXES[axis], lines, log_x=axis == "iterations"))
    draw(panels, folder / f"{axis}.svg")
