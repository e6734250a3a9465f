"""Speed and strength beside grb 0.1.0 from PyPI: same weights, same folder, in turn."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from benchmarks.injection.arena import (
    EPOCHS,
    SURROGATE,
    Arena,
    Run,
    accuracies,
    attacked,
    injection_attacks,
    prepare,
    run_attack,
    spent,
    threat,
    with_settings,
)
from benchmarks.rows import Row, grouped, markdown, median_and_range
from benchmarks.victims import black_box_view, load_dataset, predicted
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Threat
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.user_code.randomness import isolated_randomness

PEER: Final = "grb 0.1.0"
INSTALL: Final = (
    "pip install --no-deps grb==0.1.0; pip install scikit-learn pandas matplotlib networkx tqdm"
)
FULL: Final = 1000  # the paper's iterations
_CLASSES: Final = {"fgsm": "FGSM", "pgd": "PGD", "speit": "SPEIT", "tdgia": "TDGIA"}


def missing() -> Row | None:
    """Return how to install the peer if it is missing."""
    try:
        installed = version("grb")
    except PackageNotFoundError:
        installed = "no version"
    if installed == "0.1.0":
        return None
    return {"side": PEER, "missing": f"found {installed} of grb; install: {INSTALL}"}


@dataclass(frozen=True, eq=False, kw_only=True)
class PeerRun:
    """One attack that the peer ran.

    Attributes:
        graph: attacked, with the true labels, each edge once in each direction.
        seconds: in all.
        structure_seconds: of these, for the links and the new adjacency.
        rounds: of injection.
        edges: distinct edges at injected nodes.
        outside_range: of the injected features, in percent.
    """

    graph: Data
    seconds: float
    structure_seconds: float
    rounds: int
    edges: int
    outside_range: float


class OnAdjacency(nn.Module):
    """A GCN as the peer calls it: features and the normalised adjacency. Same weights."""

    model_type = "torch"
    feat_norm = None

    def __init__(self, gcn: GCN) -> None:
        super().__init__()
        copies = [nn.Linear(linear.in_features, linear.out_features) for linear in _linear(gcn)]
        self.layers = nn.ModuleList(copies)
        self.layers.load_state_dict(gcn.layers.state_dict())

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        for number, layer in enumerate(_linear(self)):
            if number > 0:
                x = torch.relu(x)
            x = adjacency @ (x @ layer.weight.T) + layer.bias
        return x


def _linear(module: Any) -> list[nn.Linear]:
    return cast("list[nn.Linear]", list(module.layers))


def normalised(adjacency: sp.spmatrix) -> sp.coo_matrix:
    """D^-1/2 (A + I) D^-1/2, as the GCN's own."""
    looped = sp.csr_matrix(adjacency) + sp.eye(adjacency.shape[0], format="csr")
    scale = sp.diags(np.asarray(looped.sum(1)).ravel() ** -0.5)
    return sp.coo_matrix(scale @ looped @ scale)


def run_peer(
    name: str, victim: Victim, graph: Data, limits: Threat, *, iterations: int, seed: int
) -> PeerRun:
    """Run one of the peer's attacks; it draws from the global random states."""
    model = OnAdjacency(cast(GCN, victim.module)).eval()
    targets = torch.zeros(graph.num_nodes, dtype=torch.bool)
    targets[limits.targets] = True
    attack = _peer_attack(name, limits, iterations)
    structure: list[float] = []
    _watch_injection(attack, structure)
    with isolated_randomness(seed), contextlib.redirect_stdout(io.StringIO()):
        begin = time.perf_counter()
        adjacency, features = attack.attack(model, _coo(graph), graph.x, targets, normalised)
        seconds = time.perf_counter() - begin
    attacked_graph = _attacked_by_peer(graph, adjacency, features)
    new = attacked_graph.x[graph.num_nodes :]
    low, high = limits.feature_range
    tolerance = 1e-6  # its own rounding is not held against it
    outside = ((new < low - tolerance) | (new > high + tolerance)).float().mean()
    return PeerRun(
        graph=attacked_graph,
        seconds=seconds,
        structure_seconds=sum(structure),
        rounds=len(structure),
        edges=int((attacked_graph.edge_index[0] >= graph.num_nodes).sum()),
        outside_range=round(100 * float(outside), 2),
    )


def _peer_attack(name: str, limits: Threat, iterations: int) -> Any:
    """Cross-entropy and TDGIA's topology are asked for: its defaults are nll_loss on logits and
    random links."""
    kind = _CLASSES[name]
    low, high = limits.feature_range
    settings: dict[str, Any] = {
        "n_epoch": iterations,
        "n_inject_max": limits.injected_nodes,
        "n_edge_max": limits.edges_per_injected_node,
        "feat_lim_min": low,
        "feat_lim_max": high,
        "loss": F.cross_entropy,
        "verbose": False,
        "epsilon" if kind in ("FGSM", "PGD") else "lr": 0.01,
    }
    if kind == "TDGIA":
        settings |= {"inject_mode": "tdgia", "sequential_step": 0.2}
    return getattr(importlib.import_module(f"grb.attack.{name}"), kind)(**settings)


def _watch_injection(attack: Any, seconds: list[float]) -> None:
    """Have the seconds of each structure step appended."""
    inject = attack.injection

    def timed(*args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        adjacency = inject(*args, **kwargs)
        seconds.append(time.perf_counter() - begin)
        return adjacency

    attack.injection = timed


def _coo(graph: Data) -> sp.coo_matrix:
    """As COO: with the documented CSR the peer fails on current scipy."""
    rows, columns = graph.edge_index.numpy()
    ones = np.ones(rows.size, dtype=np.float32)
    return sp.coo_matrix((ones, (rows, columns)), shape=(graph.num_nodes, graph.num_nodes))


def _attacked_by_peer(graph: Data, adjacency: Any, features: Tensor) -> Data:
    matrix = sp.coo_matrix(adjacency)
    ends = np.stack([matrix.row, matrix.col]).astype(np.int64)
    # It may draw an edge twice; as an edge of the graph it counts once.
    edge_index = coalesce(torch.from_numpy(ends))
    unknown = graph.y.new_full((features.shape[0],), -1)
    x = torch.cat([graph.x, features.detach().float()])
    return Data(x=x, edge_index=edge_index, y=torch.cat([graph.y, unknown]))


def check_same_model(victim: Victim, graph: Data) -> None:
    """Raise unless the peer's form of the model gives the same logits.

    Raises:
        SystemExit: it does not.
    """
    matrix = normalised(_coo(graph))
    indices = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    adjacency = torch.sparse_coo_tensor(indices, values, matrix.shape)
    with torch.no_grad():
        theirs = OnAdjacency(cast(GCN, victim.module)).eval()(graph.x, adjacency)
        gap = float((theirs - victim(graph.x, graph.edge_index)).abs().max())
    if gap > 1e-3:
        raise SystemExit(f"the surrogate and its form for {PEER} differ by {gap} in their logits")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="folder or name of a dataset")
    parser.add_argument("--folder", nargs="+", type=Path, default=[], help="where names are sought")
    parser.add_argument("--attacks", nargs="+", choices=_CLASSES, default=list(_CLASSES))
    parser.add_argument("--rounds", type=int, default=3, help="of measurement, in turn")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peer-iterations", type=int, default=100, help="where speed is measured")
    parser.add_argument("--seeds", type=int, default=1, help="of the full runs; 0: no full runs")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of the models' training")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Single measurements, then full runs of both sides with the accuracies that they leave."""
    lacking = missing()
    if lacking is not None:
        yield lacking
        return
    names = [name for name in options.attacks if name in injection_attacks()]
    torch.set_num_threads(1)
    arena = prepare(load_dataset(options.data, options.folder), options.epochs)
    check_same_model(arena.models[SURROGATE], arena.dataset.graph)
    for threads in options.threads:
        torch.set_num_threads(threads)
        for seed in range(options.rounds):
            for name in names:
                yield _peer_row(arena, name, options.peer_iterations, seed, "speed")
                yield _own_row(arena, name, seed, "speed", iterations=FULL, patience=None)
    for seed in range(options.seeds):
        for name in names:
            yield _peer_row(arena, name, FULL, seed, "total")
            yield _own_row(arena, name, seed, "total")


def table(rows: Sequence[Row]) -> str:
    """Medians and ranges of time for each step and in total, and the ratios of the medians."""
    if "missing" in rows[0]:
        return f"{rows[0]['missing']}\n"
    lines = [
        _compared(key, group) for key, group in grouped(rows, ("what", "threads", "attack")).items()
    ]
    return markdown(lines, list(dict.fromkeys(column for line in lines for column in line)))


def _compared(key: tuple[Any, ...], group: Sequence[Any]) -> Row:
    what, threads, attack = key
    line: Row = {"what": what, "threads": threads, "attack": attack}
    figure = "ms_per_step" if what == "speed" else "seconds"
    medians = {}
    for side in ("peer", "ours"):
        chosen = [row for row in group if row["side"] == side]
        middle, low, high = median_and_range([row[figure] for row in chosen])
        line[f"{side}, {figure}"] = f"{middle:.3g} ({low:.3g} to {high:.3g})"
        medians[side] = middle
        if what == "total":
            line[f"{side} leaves"] = " / ".join(f"{v:g}" for v in chosen[0]["accuracy"].values())
            line[f"{side} outside range"] = chosen[0]["outside_range"]
    line["ratio"] = f"{medians['peer'] / medians['ours']:.1f}"
    return line


def _peer_row(arena: Arena, name: str, iterations: int, seed: int, what: str) -> Row:
    limits = threat(arena.dataset, "full")
    graph, victim = arena.dataset.graph, arena.models[SURROGATE]
    run = run_peer(name, victim, graph, limits, iterations=iterations, seed=seed)
    steps = iterations * run.rounds
    return _row(what, "peer", arena, name, seed) | {
        "seconds": round(run.seconds, 3),
        "structure_ms": round(1000 * run.structure_seconds, 2),
        "steps": steps,
        "ms_per_step": round(1000 * (run.seconds - run.structure_seconds) / steps, 3),
        "accuracy": accuracies(arena, run.graph, limits.targets),
        "edges": run.edges,
        "outside_range": run.outside_range,
    }


def _own_row(arena: Arena, name: str, seed: int, what: str, **settings: object) -> Row:
    limits = threat(arena.dataset, "full")
    victim = arena.models[SURROGATE]
    known = black_box_view(arena.dataset, predicted(arena.dataset.graph, victim))
    attack = with_settings(load_attack("injection", name), **settings)
    run = run_attack(attack, known, limits, victim, seed)
    graph = attacked(arena, run.perturbation)
    return _row(what, "ours", arena, name, seed) | {
        "seconds": round(run.seconds, 3),
        "structure_ms": round(1000 * run.structure_seconds, 2),
        "steps": run.steps,
        "ms_per_step": _milliseconds(run),
        "accuracy": accuracies(arena, graph, limits.targets),
        **spent(run.perturbation, limits, arena.dataset.num_nodes),
    }


def _milliseconds(run: Run) -> float:
    """As for the peer, with what is computed once before the steps."""
    return round(1000 * (run.engine_seconds + run.search_seconds) / max(1, run.steps), 3)


def _row(what: str, side: str, arena: Arena, name: str, seed: int) -> Row:
    return {
        "what": what,
        "side": side,
        "data": arena.dataset.name,
        "attack": name,
        "seed": seed,
        "threads": torch.get_num_threads(),
    }
