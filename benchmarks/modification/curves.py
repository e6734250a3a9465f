"""Accuracy over time of the searches for flips, each with more and more work, beside PyG's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.modification.adaptive import VICTIMS
from benchmarks.modification.arena import (
    EPOCHS,
    Run,
    check_names,
    fitted,
    limits_of,
    public_planetoid,
    result,
    run_attack,
)
from benchmarks.modification.peer import BLOCK, PEERS, run_peer
from benchmarks.plots import Panel, check_plots, draw
from benchmarks.rows import Row, grouped, markdown, mean, over_seeds
from grb_check.attacks.registry import load_attack
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import threads_for
from grb_check.gradients.victim import Victim

# A line each: the same attack with more and more work.
LINES: Final[dict[str, tuple[str, ...]]] = {
    "prbcd": ("prbcd+iterations=15", "prbcd", "prbcd+iterations=240"),
    "grbcd": ("grbcd+exchanges=0", "grbcd", "grbcd+exchanges=160"),
    "grbcd+polish": tuple(f"grbcd+polish={work}" for work in (100, 300, 1000, 3000)),
    "eva": tuple(f"eva+forwards={work}" for work in (100, 300, 1000, 3000)),
}
PEER_EPOCHS: Final = (30, 125)
KEYS: Final = ("data", "line", "attack")
FIGURES: Final = ("clean", "attacked", "used", "budget", "cpu_seconds")
COLUMNS: Final = (*KEYS, "clean", "attacked", "of each seed", "used", "budget", "cpu_seconds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/NAME/raw/ind.*")
    parser.add_argument("--datasets", nargs="+", default=["Cora", "CiteSeer"], help="of Planetoid")
    parser.add_argument("--victim", choices=VICTIMS, default="pyg")
    parser.add_argument("--lines", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="most epochs of the training")
    parser.add_argument("--peers", action="store_true", help="PyG's attacks, too")
    parser.add_argument("--block", type=int, default=BLOCK, help="pairs in a block of the peers'")
    parser.add_argument("--out", type=Path, help="folder for modification-curves.svg")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset, seed, attack and amount of work; one thread for both sides."""
    check_names(name for line in options.lines for name in LINES[line])
    if options.out is not None:
        check_plots()
    lines = []
    for name in options.datasets:
        for row in of_dataset(public_planetoid(options.data / "planetoid", name), options):
            lines.append(row)
            yield row
    if options.out is not None:
        draw(panels(lines), options.out / "modification-curves.svg")


def of_dataset(dataset: Dataset, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each attack on each trained model."""
    make, limits = VICTIMS[options.victim], limits_of(dataset)
    with threads_for(dataset.num_nodes):
        for seed in options.seeds:
            victim = fitted(make, dataset, name="victim", seed=seed, epochs=options.epochs)
            head = {"data": dataset.name, "victim": options.victim, "seed": seed}
            begin = time.process_time()
            for line, attack, run in runs(dataset, victim, seed, options):
                spent = round(time.process_time() - begin, 2)
                row = {"line": line, "attack": attack, "cpu_seconds": spent}
                yield head | row | result(run, dataset, limits, victim)
                begin = time.process_time()


def runs(
    dataset: Dataset, victim: Victim, seed: int, options: argparse.Namespace
) -> Iterator[tuple[str, str, Run]]:
    """Yield line, attack and what it did; the time between is that of the attack."""
    limits = limits_of(dataset)
    for line in options.lines:
        for name in LINES[line]:
            attack = load_attack("modification", name)
            yield line, name, run_attack(attack, dataset.graph, limits, victim, seed)
    for name in PEERS if options.peers else ():
        for epochs in PEER_EPOCHS:
            settings = {"epochs": epochs, "block": options.block, "seed": seed}
            run = run_peer(name, victim, dataset, limits, **settings)
            yield f"PyG {name}", f"{name}, {epochs} epochs", run


def panels(rows: Sequence[Row]) -> list[Panel]:
    """Return for each dataset a line for each attack: mean seconds and mean accuracy left."""
    return [
        Panel(
            title=f"{data}, accuracy left, %",
            x_label="CPU seconds, one thread",
            log_x=True,
            lines={
                str(line): sorted(
                    (
                        max(0.01, mean(row["cpu_seconds"] for row in of_attack) or 0.0),
                        mean(row["attacked"] for row in of_attack) or 0.0,
                    )
                    for of_attack in grouped(of_line, ("attack",)).values()
                )
                for (line,), of_line in grouped(of_data, ("line",)).items()
            },
        )
        for (data,), of_data in grouped(rows, ("data",)).items()
    ]


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds."""
    return markdown(over_seeds(rows, KEYS, FIGURES), COLUMNS)
