"""Time and peak memory of the white-box attacks on Coauthor Physics, beside PyG's PRBCD."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from benchmarks.memory import peak_mib
from benchmarks.modification.arena import (
    Run,
    check_names,
    fitted,
    limits_of,
    load_weights,
    raw_dataset,
    result,
    run_attack,
    save_weights,
    small_gcn,
)
from benchmarks.modification.peer import BLOCK, PEER, PEERS, run_peer
from benchmarks.processes import alone
from benchmarks.rows import Row, markdown
from benchmarks.victims import accuracy
from grb_check.attacks.registry import load_attack
from grb_check.datasets.dataset import Dataset
from grb_check.gradients.victim import Victim

ATTACKS: Final = ("prbcd", "grbcd")
PEER_ATTACKS: Final = ("PRBCD tanh_margin",)
FOR_TRAINING, FOR_VALIDATION = 20, 30  # nodes of each class
COLUMNS: Final = (
    "num_nodes",
    "num_edges",
    "side",
    "attack",
    "clean",
    "attacked",
    "drop",
    "used",
    "budget",
    "gradients",
    "s_per_gradient",
    "seconds",
    "loaded_mib",
    "peak_mib",
    "threads",
    "error",
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Work of one process; `epochs` are the training's or the peer's."""

    file: Path
    weights: Path
    threads: int
    epochs: int = 0
    block: int = 0
    attack: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="npz file with adj_*, attr_*")
    parser.add_argument("--attacks", nargs="+", default=ATTACKS, help="names, with modifiers")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEER_ATTACKS)
    parser.add_argument("--peer-epochs", type=int, default=15)
    parser.add_argument("--block", type=int, default=BLOCK, help="pairs in a block of the peers'")
    parser.add_argument("--epochs", type=int, default=100, help="most epochs of the training")
    parser.add_argument("--threads", type=int, default=2, help="above 1, the cores must be idle")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for the training and one for each attack, each from a process of its own."""
    check_names(options.attacks)
    with tempfile.TemporaryDirectory() as temporary:
        settings: dict[str, Any] = {
            "file": options.data,
            "weights": Path(temporary) / "weights.npz",
            "threads": options.threads,
        }
        trained = alone(train, Job(**settings, epochs=options.epochs))
        yield {"attack": "none: training"} | trained
        if "error" in trained:
            return
        for name in options.attacks:
            row = alone(measure, Job(**settings, attack=name))
            yield {"side": "ours", "attack": name} | row
        settings |= {"epochs": options.peer_epochs, "block": options.block}
        for name in options.peers:
            yield {"side": PEER, "attack": name} | alone(measure_peer, Job(**settings, attack=name))


def table(rows: Sequence[Row]) -> str:
    """Return one line for each row."""
    return markdown(rows, COLUMNS)


def raw_graph(file: Path) -> Dataset:
    """Return a graph of the gnn-benchmark collection with unchanged features.

    20 nodes of each class are for training and 30 for validation, drawn from seed 0; all others are
    targets.
    """
    with np.load(file) as arrays:
        adjacency, features = (_csr(arrays, part) for part in ("adj", "attr"))
        labels = torch.from_numpy(arrays["labels"]).long()
        x = torch.from_numpy(features.toarray()).float()
    ends = np.stack(((adjacency + adjacency.T) != 0).nonzero()).astype(np.int64)
    edge_index = torch.from_numpy(ends[:, ends[0] != ends[1]])
    train, val = _drawn(labels)
    graph = Data(x=x, edge_index=edge_index, y=labels)
    return raw_dataset(file.stem, graph, train, val, ~(train | val))


def train(job: Job) -> Row:
    """Train the GCN and keep its weights."""
    torch.set_num_threads(job.threads)
    dataset = raw_graph(job.file)
    begin = time.perf_counter()
    victim = fitted(small_gcn, dataset, name="GCN", seed=0, epochs=job.epochs)
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
    """Measure one of the package's attacks, with all its steps."""
    dataset, victim, loaded = _load(job)
    limits = limits_of(dataset)
    attack = load_attack("modification", job.attack)
    run = run_attack(attack, dataset.graph, limits, victim, 0)
    return _row(dataset, loaded, run, result(run, dataset, limits, victim))


def measure_peer(job: Job) -> Row:
    """Measure one of PyG's attacks."""
    dataset, victim, loaded = _load(job)
    limits = limits_of(dataset)
    settings = {"epochs": job.epochs, "block": job.block, "seed": 0}
    run = run_peer(job.attack, victim, dataset, limits, **settings)
    return _row(dataset, loaded, run, result(run, dataset, limits, victim))


def _load(job: Job) -> tuple[Dataset, Victim, int | None]:
    """Return the graph, the GCN and the peak of memory so far."""
    torch.set_num_threads(job.threads)
    dataset = raw_graph(job.file)
    return dataset, load_weights(small_gcn, dataset, job.weights, name="GCN"), peak_mib()


def _row(dataset: Dataset, loaded: int | None, run: Run, result_row: Row) -> Row:
    """Return a row; `peak_mib` includes the graph, `loaded_mib` is that of loading alone."""
    return {
        "num_nodes": dataset.num_nodes,
        "num_edges": dataset.num_edges,
        "loaded_mib": loaded,
        "s_per_gradient": round(run.seconds / run.gradients, 3) if run.gradients else None,
        **result_row,
    }


def _csr(arrays: Any, part: str) -> sp.csr_matrix:
    members = tuple(arrays[f"{part}_{name}"] for name in ("data", "indices", "indptr"))
    return sp.csr_matrix(members, shape=tuple(arrays[f"{part}_shape"]), dtype=np.float32)


def _drawn(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return masks bool [num_nodes] of the nodes for training and for validation."""
    generator = torch.Generator().manual_seed(0)
    train = torch.zeros(labels.numel(), dtype=torch.bool)
    val = train.clone()
    for label in labels.unique():
        members = (labels == label).nonzero().flatten()
        members = members[torch.randperm(members.numel(), generator=generator)]
        train[members[:FOR_TRAINING]] = True
        val[members[FOR_TRAINING : FOR_TRAINING + FOR_VALIDATION]] = True
    return train, val
