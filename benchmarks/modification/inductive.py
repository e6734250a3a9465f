"""Attacks on new nodes of a graph, in the setting of EvA's Table 1 as far as it is known.

`EvA: Evolutionary Attacks on Graphs <https://arxiv.org/abs/2507.08212>`_ (Akhondzadeh et al. 2026)
attacks models that were trained without the test nodes. Our reading: for each class 20 nodes to
train on and 20 to validate, a tenth of the nodes to test, in proportion to the classes; a GCN of
two layers of 64; a budget of 5 % of the edges that have a test node. Planetoid's Cora and CiteSeer
stand for Cora-ML and the larger CiteSeer, which are other graphs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import models
from torch_geometric.utils import subgraph

from benchmarks.modification.arena import (
    EPOCHS,
    Run,
    check_names,
    fitted,
    limits_of,
    public_planetoid,
    raw_dataset,
    result,
    run_attack,
)
from benchmarks.modification.peer import BLOCK, PEER, PEERS, run_peer
from benchmarks.modification.peer import EPOCHS as PEER_EPOCHS
from benchmarks.rows import Row, markdown, over_seeds
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Threat
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import threads_for

PER_CLASS: Final = 20
PARTS: Final = 2  # to train on, and to validate
TESTED: Final = 0.1
SHARE: Final = 0.05
HIDDEN: Final = 64
ATTACKS: Final = ("prbcd", "grbcd", "grbcd+polish=1000", "eva", "eva+forwards=3000")
KEYS: Final = ("data", "attack")
FIGURES: Final = ("clean", "attacked", "budget", "cpu_seconds")
COLUMNS: Final = (*KEYS, "clean", "attacked", "of each seed", "budget", "cpu_seconds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/NAME/raw/ind.*")
    parser.add_argument("--datasets", nargs="+", default=["Cora", "CiteSeer"], help="of Planetoid")
    parser.add_argument("--attacks", nargs="+", default=ATTACKS, help="names, with modifiers")
    parser.add_argument("--seeds", type=int, default=5, help="of split, training and attack")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="most epochs of the training")
    parser.add_argument("--peers", action="store_true", help="PyG's attacks, too")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset, seed and attack; one thread for both sides."""
    check_names(options.attacks)
    for name in options.datasets:
        planetoid = public_planetoid(options.data / "planetoid", name)
        for seed in range(options.seeds):
            with threads_for(planetoid.num_nodes):
                yield from of_split(split(planetoid, seed), seed, options)


def of_split(dataset: Dataset, seed: int, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each attack on a model trained without the test nodes."""
    victim = fitted(gcn, seen(dataset), name="victim", seed=seed, epochs=options.epochs)
    limits = budget_of(dataset)
    runs: dict[str, Callable[[], Run]] = {
        name: partial(
            run_attack, load_attack("modification", name), dataset.graph, limits, victim, seed
        )
        for name in options.attacks
    }
    settings = {"epochs": PEER_EPOCHS, "block": BLOCK, "seed": seed}
    for name in PEERS if options.peers else ():
        runs[f"{PEER} {name}"] = partial(run_peer, name, victim, dataset, limits, **settings)
    for name, run in runs.items():
        begin = time.process_time()
        perturbation = run()
        head = {"data": dataset.name, "seed": seed, "attack": name}
        spent = {"cpu_seconds": round(time.process_time() - begin, 2)}
        yield head | spent | result(perturbation, dataset, limits, victim)


def gcn(num_features: int, num_classes: int) -> nn.Module:
    """Return PyG's GCN of two layers of 64 with dropout 0.5."""
    return models.GCN(num_features, HIDDEN, num_layers=2, out_channels=num_classes, dropout=0.5)


def split(dataset: Dataset, seed: int) -> Dataset:
    """Return the dataset with a random split; a class of few nodes gives what it has."""
    generator = torch.Generator().manual_seed(seed)
    train, val, test = (torch.zeros(dataset.num_nodes, dtype=torch.bool) for _ in range(3))
    for label in range(dataset.num_classes):
        nodes = (dataset.graph.y == label).nonzero().flatten()
        nodes = nodes[torch.randperm(nodes.numel(), generator=generator)]
        tested = PARTS * PER_CLASS + round(TESTED * nodes.numel())
        train[nodes[:PER_CLASS]] = True
        val[nodes[PER_CLASS : PARTS * PER_CLASS]] = True
        test[nodes[PARTS * PER_CLASS : tested]] = True
    return raw_dataset(dataset.name, dataset.graph, train, val, test)


def seen(dataset: Dataset) -> Dataset:
    """Return the part of a dataset that training sees: all nodes but those of the test."""
    keep = torch.ones(dataset.num_nodes, dtype=torch.bool)
    keep[dataset.test["full"]] = False
    new_index = keep.cumsum(0) - 1
    edges, _ = subgraph(keep, dataset.graph.edge_index, relabel_nodes=True)
    graph = Data(x=dataset.graph.x[keep], edge_index=edges, y=dataset.graph.y[keep])
    return replace(
        dataset,
        graph=graph,
        train=new_index[dataset.train],
        val=new_index[dataset.val],
        test={"full": new_index[dataset.val]},
    )


def budget_of(dataset: Dataset) -> Threat:
    """Return the threat: all test nodes, 5 % of the edges that have one."""
    tested = torch.zeros(dataset.num_nodes, dtype=torch.bool)
    tested[dataset.test["full"]] = True
    touched = tested[dataset.graph.edge_index].any(0).sum() // 2
    return replace(limits_of(dataset), edge_budget=int(SHARE * int(touched)))


def table(rows: Sequence[Row]) -> str:
    """Return means over the seeds."""
    return markdown(over_seeds(rows, KEYS, FIGURES), COLUMNS)
