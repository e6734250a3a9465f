"""Strength and speed of the white-box attacks on Planetoid's graphs, beside PyG's."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from torch_geometric.nn import models

from benchmarks.modification.arena import (
    EPOCHS,
    HIDDEN,
    Make,
    check_names,
    fitted,
    limits_of,
    public_planetoid,
    result,
    run_attack,
    small_gcn,
)
from benchmarks.modification.peer import BLOCK, PEER, PEERS, run_peer
from benchmarks.modification.peer import EPOCHS as PEER_EPOCHS
from benchmarks.plots import Marks, check_plots, draw_marks
from benchmarks.rows import Row, grouped, markdown, mean
from grb_check.attacks.registry import load_attack
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import threads_for

ATTACKS: Final = (
    "random-flips",
    "rnd",
    "dice",
    "fga+white-box",
    "pgd-topology",
    "prbcd",
    "grbcd",
)
# The package's GCN, whose layers the attacks know, and the same net of PyG's layers.
VICTIMS: Final[dict[str, Make]] = {
    "own": small_gcn,
    "pyg": lambda num_features, num_classes: models.GCN(
        num_features, HIDDEN, num_layers=2, out_channels=num_classes, dropout=0.5
    ),
}
KEYS: Final = ("data", "victim", "side", "attack")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/NAME/raw/ind.*")
    parser.add_argument("--datasets", nargs="+", default=["Cora", "CiteSeer"], help="of Planetoid")
    parser.add_argument("--victim", nargs="+", choices=VICTIMS, default=["own"])
    parser.add_argument("--attacks", nargs="+", default=ATTACKS, help="names, with modifiers")
    parser.add_argument("--seeds", type=int, default=3, help="of training and attack together")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="most epochs of the training")
    parser.add_argument("--peers", action="store_true", help="PyG's attacks, too")
    parser.add_argument("--peer-epochs", type=int, default=PEER_EPOCHS)
    parser.add_argument("--block", type=int, default=BLOCK, help="pairs in a block of the peers'")
    parser.add_argument("--out", type=Path, help="folder for modification-adaptive.svg")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset, victim, seed and attack; one thread for both sides."""
    check_names(options.attacks)
    if options.out is not None:
        check_plots()
    table_rows = []
    for name in options.datasets:
        for row in of_dataset(public_planetoid(options.data / "planetoid", name), options):
            table_rows.append(row)
            yield row
    if options.out is not None:
        draw_marks(panels(table_rows), options.out / "modification-adaptive.svg")


def panels(rows: Sequence[Row]) -> list[Marks]:
    """Return for each dataset and victim the accuracy that each attack leaves, and its time."""
    return [
        Marks(
            title=f"{data}, {victim} GCN",
            x_label="seconds on one thread",
            y_label="accuracy left, %",
            points={
                f"PyG {name}" if side == PEER else str(name): (
                    max(0.01, mean(row["seconds"] for row in group)),
                    mean(row["attacked"] for row in group),
                )
                for (side, name), group in grouped(of_victim, ("side", "attack")).items()
            },
        )
        for (data, victim), of_victim in grouped(rows, ("data", "victim")).items()
    ]


def of_dataset(dataset: Dataset, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each attack on each trained model."""
    limits = limits_of(dataset)
    with threads_for(dataset.num_nodes):
        for kind in options.victim:
            for seed in range(options.seeds):
                make, epochs = VICTIMS[kind], options.epochs
                victim = fitted(make, dataset, name=kind, seed=seed, epochs=epochs)
                described = partial(result, dataset=dataset, limits=limits, victim=victim)
                head = {"data": dataset.name, "victim": kind, "seed": seed}
                for name in options.attacks:
                    attack = load_attack("modification", name)
                    run = run_attack(attack, dataset.graph, limits, victim, seed)
                    yield head | {"side": "ours", "attack": name} | described(run)
                for name in PEERS if options.peers else ():
                    settings = {"epochs": options.peer_epochs, "block": options.block}
                    run = run_peer(name, victim, dataset, limits, seed=seed, **settings)
                    yield head | {"side": PEER, "attack": name} | described(run)


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds, and the relative drop of each."""
    return markdown([_line(key, group) for key, group in grouped(rows, KEYS).items()], COLUMNS)


COLUMNS: Final = (
    *KEYS,
    "clean",
    "attacked",
    "drops, %",
    "drop, %",
    "used",
    "budget",
    "added",
    "removed",
    "gradients",
    "seconds",
    "peak_mib",
    "threads",
)


def _line(key: tuple[object, ...], group: Sequence[Row]) -> Row:
    figures = ("clean", "attacked", "used", "added", "removed", "gradients", "seconds", "peak_mib")
    return {
        **dict(zip(KEYS, key, strict=True)),
        **{figure: mean(row[figure] for row in group) for figure in figures},
        "drops, %": ", ".join(f"{row['drop']:.1f}" for row in group),
        "drop, %": mean(row["drop"] for row in group),
        "budget": group[0]["budget"],
        "threads": group[0]["threads"],
    }
