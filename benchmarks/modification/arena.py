"""Shared by the modification benchmarks: data, training, one attack run and observed."""

from __future__ import annotations

import copy
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid

from benchmarks.memory import peak_mib, reset_peak
from benchmarks.rows import Row
from benchmarks.victims import accuracy, untrained
from grb_check.attacks.budgets import threat_for
from grb_check.attacks.protocol import Attack, PairGradients
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.datasets.dataset import Dataset
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.user_code.randomness import derive_seed, isolated_randomness
from grb_check.victims.wrappers import freeze

Make = Callable[[int, int], nn.Module]

HIDDEN: Final = 16
EPOCHS: Final = 300
PATIENCE: Final = 100


def check_names(names: Iterable[str]) -> None:
    """Raise for a misspelt attack, before any training."""
    for name in names:
        load_attack("modification", name)


def small_gcn(num_features: int, num_classes: int) -> nn.Module:
    """Return the package's GCN with one hidden layer of 16 and dropout 0.5."""
    return GCN(num_features, num_classes, (HIDDEN,), dropout=0.5)


def public_planetoid(folder: Path, name: str) -> Dataset:
    """Return Planetoid's graph with its public split and unchanged features.

    Args:
        folder: has `NAME/raw/ind.*`; PyG, which writes beside what it reads, is given a copy.
        name: `Cora` or `CiteSeer`.
    """
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copytree(folder / name / "raw", Path(temporary) / name / "raw")
        graph = Planetoid(temporary, name)[0]
    return raw_dataset(name, graph, graph.train_mask, graph.val_mask, graph.test_mask)


def raw_dataset(name: str, graph: Data, train: Tensor, val: Tensor, test: Tensor) -> Dataset:
    """Return a dataset of one difficulty with unchanged features; masks bool [num_nodes]."""
    return Dataset(
        name=name,
        graph=Data(x=graph.x, edge_index=graph.edge_index, y=graph.y),
        train=train.nonzero().flatten(),
        val=val.nonzero().flatten(),
        test={"full": test.nonzero().flatten()},
        num_classes=int(graph.y.max()) + 1,
        raw_feature_range=(float(graph.x.min()), float(graph.x.max())),
        origin="a benchmark",
    )


def limits_of(dataset: Dataset) -> Threat:
    """Return the threat: 5 % of the edges, all test nodes."""
    return threat_for(dataset, "full", "modification")


def fitted(make: Make, dataset: Dataset, *, name: str, seed: int, epochs: int) -> Victim:
    """Return a model trained on the whole graph, in the state of its lowest validation loss.

    Adam with learning rate 0.01, no weight decay; it ends after `PATIENCE` epochs without a lower
    loss, or after `epochs`.
    """
    adapter = untrained(make, dataset, name=name, seed=seed)
    module, graph = adapter.module, dataset.graph
    forward = adapter.on_topology(graph.edge_index, dataset.num_nodes)

    def loss(nodes: Tensor) -> Tensor:
        return F.cross_entropy(forward(graph.x)[nodes], graph.y[nodes])

    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    best, state, waited = float("inf"), copy.deepcopy(module.state_dict()), 0
    with isolated_randomness(seed):
        for _ in range(epochs):
            module.train()
            optimizer.zero_grad()
            torch.autograd.backward(loss(dataset.train))
            optimizer.step()
            module.eval()
            with torch.no_grad():
                now = float(loss(dataset.val))
            waited += 1
            if now < best:
                best, state, waited = now, copy.deepcopy(module.state_dict()), 0
            if waited > PATIENCE:
                break
    module.load_state_dict(state)
    freeze(module)
    return Victim(adapter, dataset.num_classes)


def save_weights(victim: Victim, path: Path) -> None:
    """Write an npz file for `load_weights` in another process."""
    np.savez(path, **{key: value.numpy() for key, value in victim.module.state_dict().items()})


def load_weights(make: Make, dataset: Dataset, path: Path, *, name: str) -> Victim:
    """Return the model that `save_weights` was given."""
    adapter = untrained(make, dataset, name=name, seed=0)
    with np.load(path) as arrays:
        state = {key: torch.from_numpy(arrays[key]) for key in arrays}
    adapter.module.load_state_dict(state)
    freeze(adapter.module)
    return Victim(adapter, dataset.num_classes)


@dataclass(frozen=True, eq=False)
class Watched:
    """A victim that counts gradients in edge weights; everything else is the victim's own."""

    victim: Victim
    gradients: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.victim, name)

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.victim(x, edge_index, edge_weight)

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        logits_of = self.victim.with_pairs(x, edge_index, pairs, targets)
        if logits_of is None:
            return None

        def counted(weights: Tensor) -> Tensor:
            if weights.requires_grad and torch.is_grad_enabled():
                self.gradients.append("some pairs")
            return logits_of(weights)

        return counted

    def pair_gradients(self, *args: Any, **settings: Any) -> PairGradients | None:
        gradients = self.victim.pair_gradients(*args, **settings)
        if gradients is not None:
            self.gradients.append("all pairs")
        return gradients


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """One attack that was run, by the package or by a peer, and verified.

    Attributes:
        gradients: how often the gradient for edges was taken.
        peak_mib: most resident memory of the process meanwhile; None where it cannot be told.
    """

    perturbation: Perturbation
    seconds: float
    gradients: int
    peak_mib: int | None


def run_attack(attack: Attack, known: Data, limits: Threat, victim: Victim, seed: int) -> Run:
    """Run one of the package's attacks on a graph with the labels that it may see."""
    watched = Watched(victim)
    generator = torch.Generator().manual_seed(derive_seed("attack", attack.name, seed))
    reset_peak()
    begin = time.perf_counter()
    perturbation = attack.perturb(known, limits, cast(Victim, watched), generator)
    seconds = time.perf_counter() - begin
    peak = peak_mib()
    verify(perturbation, known, limits)
    return Run(
        perturbation=perturbation,
        seconds=seconds,
        gradients=len(watched.gradients),
        peak_mib=peak,
    )


def result(run: Run, dataset: Dataset, limits: Threat, victim: Victim) -> Row:
    """Return clean and attacked accuracy, the budget spent and the duration."""
    clean = accuracy(victim, dataset.graph, limits.targets)
    left = accuracy(victim, apply(dataset.graph, run.perturbation), limits.targets)
    return {
        "clean": clean,
        "attacked": left,
        "drop": round(100 * (clean - left) / clean, 2) if clean else None,
        **spent(run.perturbation, limits),
        "seconds": round(run.seconds, 3),
        "gradients": run.gradients,
        "peak_mib": run.peak_mib,
        "threads": torch.get_num_threads(),
        "notes": run.perturbation.notes,
    }


def spent(perturbation: Perturbation, limits: Threat) -> Row:
    """Return edges added and removed, their budget, and nodes with changed features."""
    added, removed = perturbation.added_edges.shape[1], perturbation.removed_edges.shape[1]
    return {
        "used": added + removed,
        "budget": limits.edge_budget,
        "added": added,
        "removed": removed,
        "nodes": perturbation.modified_nodes.numel(),
    }
