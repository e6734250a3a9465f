"""Strength of the white-box attacks on models of PyG's layers, as users have them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import APPNP, models

from benchmarks.modification.arena import (
    EPOCHS,
    check_names,
    fitted,
    limits_of,
    public_planetoid,
    result,
    run_attack,
)
from benchmarks.rows import Row, grouped, markdown, mean
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Threat
from grb_check.datasets.dataset import Dataset
from grb_check.errors import GradientError
from grb_check.evaluation.devices import threads_for
from grb_check.gradients.victim import Victim

ATTACKS: Final = ("random-flips", "prbcd", "grbcd", "pgd-topology")
KEYS: Final = ("data", "victim", "attack")
COLUMNS: Final = (
    *KEYS,
    "clean",
    "attacked",
    "drop",
    "used",
    "budget",
    "gradients",
    "seconds",
    "error",
)


class PlainAppnp(nn.Module):
    """Two linear layers, then personalised propagation; takes no edge weights."""

    def __init__(self, num_features: int, num_classes: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, hidden)
        self.second = nn.Linear(hidden, num_classes)
        self.propagate = APPNP(K=10, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        x = F.dropout(F.relu(self.first(x)), 0.5, self.training)
        logits: Tensor = self.propagate(self.second(x), edge_index)
        return logits


def _of_library(kind: type[models.basic_gnn.BasicGNN]) -> Callable[[int, int, int], nn.Module]:
    """Return a model of two layers with dropout 0.5 and no normalisation."""

    def make(num_features: int, num_classes: int, hidden: int) -> nn.Module:
        return kind(num_features, hidden, num_layers=2, out_channels=num_classes, dropout=0.5)

    return make


VICTIMS: Final[dict[str, Callable[[int, int, int], nn.Module]]] = {
    "GCN": _of_library(models.GCN),
    "GAT": _of_library(models.GAT),
    "GIN": _of_library(models.GIN),
    "GraphSAGE": _of_library(models.GraphSAGE),
    "APPNP": PlainAppnp,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/NAME/raw/ind.*")
    parser.add_argument("--datasets", nargs="+", default=["Cora"], help="of Planetoid")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=list(VICTIMS))
    parser.add_argument("--attacks", nargs="+", default=ATTACKS, help="names, with modifiers")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1, help="of training and attack together")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="most epochs of the training")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset, victim, seed and attack."""
    check_names(options.attacks)
    for name in options.datasets:
        yield from of_dataset(public_planetoid(options.data / "planetoid", name), options)


def of_dataset(dataset: Dataset, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each attack on each trained model."""
    limits = limits_of(dataset)
    with threads_for(dataset.num_nodes):
        for kind in options.victims:
            for seed in range(options.seeds):
                victim = trained(kind, dataset, options, seed)
                for name in options.attacks:
                    head = {"data": dataset.name, "victim": kind, "attack": name, "seed": seed}
                    yield head | _attacked(name, dataset, limits, victim, seed)


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds."""
    lines = []
    for key, group in grouped(rows, KEYS).items():
        line = dict(zip(KEYS, key, strict=True)) | {"error": group[0].get("error")}
        figures = (column for column in COLUMNS if column not in line)
        line |= {figure: mean(row.get(figure) for row in group) for figure in figures}
        lines.append(line)
    return markdown(lines, COLUMNS)


def trained(kind: str, dataset: Dataset, options: argparse.Namespace, seed: int) -> Victim:
    """Return one of `VICTIMS`, trained with the options `hidden` and `epochs`."""

    def make(num_features: int, num_classes: int) -> nn.Module:
        return VICTIMS[kind](num_features, num_classes, options.hidden)

    return fitted(make, dataset, name=kind, seed=seed, epochs=options.epochs)


def _attacked(name: str, dataset: Dataset, limits: Threat, victim: Victim, seed: int) -> Row:
    try:
        run = run_attack(load_attack("modification", name), dataset.graph, limits, victim, seed)
    except GradientError as error:
        return {"error": str(error)}
    return result(run, dataset, limits, victim)
