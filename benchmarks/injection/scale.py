"""Time and peak memory of the injection attacks on graphs up to the size of grb-aminer."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.custom_graph import make_custom
from benchmarks.injection.arena import (
    SURROGATE,
    injection_attacks,
    run_attack,
    spent,
    threat,
    with_settings,
)
from benchmarks.injection.peer import PEER, missing, run_peer
from benchmarks.plots import Panel, check_plots, draw
from benchmarks.processes import alone
from benchmarks.rows import Row, grouped, markdown
from benchmarks.synthetic import prepare as prepare_preset
from benchmarks.victims import (
    accuracy,
    black_box_view,
    load_dataset,
    predicted,
    raw_gcn,
    trained,
    untrained,
)
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import apply
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.surrogates import kinds_for
from grb_check.gradients.victim import Victim
from grb_check.victims.wrappers import freeze

MIB: Final = 2**20
COLUMNS: Final = (
    "graph",
    "num_nodes",
    "num_edges",
    "side",
    "attack",
    "structure_ms",
    "apply_ms",
    "engine_ms",
    "ms_per_step",
    "before_mib",
    "peak_mib",
    "attacked",
    "error",
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """A graph and the budget of attacks on it; `full` of GRB's Table 12 for the presets."""

    nodes: int
    links: int


PRESETS: Final = {
    "synthetic-flickr": Size(nodes=600, links=100),
    "synthetic-reddit": Size(nodes=1500, links=200),
    "synthetic-aminer": Size(nodes=1500, links=100),
}
CUSTOM: Final = Size(nodes=200, links=100)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Work of one process."""

    folder: Path
    size: Size
    weights: Path
    epochs: int
    iterations: int
    threads: int
    device: str
    attack: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graphs", nargs="+", choices=("custom", *PRESETS), help="default: all")
    parser.add_argument("--nodes", type=int, default=100_000, help="of the custom graph")
    parser.add_argument("--edges", type=int, default=500_000, help="of the custom graph")
    parser.add_argument("--attacks", nargs="+", help="names, with modifiers; default: all")
    parser.add_argument("--peer-attacks", nargs="*", default=["fgsm", "tdgia"], help="custom graph")
    parser.add_argument("--iterations", type=int, default=20, help="in each round")
    parser.add_argument("--epochs", type=int, default=5, help="of the surrogate's training")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where the package's attacks run")
    parser.add_argument("--home", type=Path, help="folder of the graphs; default: temporary")
    parser.add_argument("--out", type=Path, help="folder for scale.svg; needs matplotlib")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each graph and attack, each measured in a process of its own."""
    names = options.attacks or injection_attacks()
    for name in names:
        _check(name)
    if options.out is not None:
        check_plots()
    measured = []
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        for graph in options.graphs or ("custom", *PRESETS):
            for row in _of_graph(graph, home, names, options):
                measured.append(row)
                yield row
    if options.out is not None:
        _draw(measured, options.out)


def table(rows: Sequence[Row]) -> str:
    """Return one line for each row."""
    return markdown(rows, COLUMNS)


def _check(name: str) -> None:
    kinds = kinds_for(load_attack("injection", name))
    if len(kinds) > 1:
        msg = (
            f"--attacks {name}: scale trains a GCN alone, and this attack needs {', '.join(kinds)}"
        )
        raise SystemExit(f"{msg}; leave the ensemble out")


def _of_graph(
    graph: str, home: Path, names: Sequence[str], options: argparse.Namespace
) -> Iterator[Row]:
    if graph == "custom":
        dataset = alone(make_custom, options.nodes, options.edges, home)
    else:
        dataset = alone(make_preset, graph, home)
    if "error" in dataset:
        yield {"graph": graph} | dataset
        return
    folder, size = Path(dataset["folder"]), PRESETS.get(graph, CUSTOM)
    settings: dict[str, Any] = {
        "folder": folder,
        "size": size,
        "weights": home / f"{folder.name}-weights.npz",
        "epochs": options.epochs,
        "iterations": options.iterations,
        "threads": options.threads,
        "device": options.device,
    }
    trained_row = alone(train, Job(**settings))
    yield {"graph": folder.name, "what": "surrogate"} | trained_row
    if "error" in trained_row:
        return
    for name in names:
        row = alone(measure, Job(**settings, attack=name))
        yield {"graph": folder.name, "side": "ours", "attack": name} | row
    if graph != "custom" or not options.peer_attacks:
        return
    lacking = missing()
    if lacking is not None:
        yield {"graph": folder.name} | lacking
        return
    for name in options.peer_attacks:
        row = alone(measure_peer, Job(**settings, attack=name))
        yield {"graph": folder.name, "side": PEER, "attack": name} | row


def make_preset(name: str, home: Path) -> Row:
    """Make the folder of one of the package's presets."""
    return {"folder": str(prepare_preset(name, home))}


def train(job: Job) -> Row:
    """Train the surrogate; keep its weights, and its classes on the clean graph."""
    torch.set_num_threads(job.threads)
    dataset = load_dataset(str(job.folder), [])
    begin = time.perf_counter()
    victim = trained(raw_gcn, dataset, name=SURROGATE, seed=0, epochs=job.epochs)
    seconds = time.perf_counter() - begin
    state = {name: value.numpy() for name, value in victim.module.state_dict().items()}
    classes = predicted(dataset.graph, victim)
    np.savez(job.weights, classes=classes.numpy(), **state)
    degrees = torch.bincount(dataset.graph.edge_index[0], minlength=dataset.num_nodes)
    ends = dataset.graph.y[dataset.graph.edge_index]
    return {
        **_sizes(dataset, job.size),
        "median_degree": int(degrees.median()),
        "largest_degree": int(degrees.max()),
        "homophily": round(float((ends[0] == ends[1]).float().mean()), 3),
        "epochs": job.epochs,
        "clean": accuracy(victim, dataset.graph, dataset.test["full"]),
        "seconds": round(seconds, 1),
        "peak_mib": _peak(),
    }


def measure(job: Job) -> Row:
    """Measure one of the package's attacks, for a fixed number of steps, after a short warm-up.

    `structure_ms` is all that is neither the engine's preparation nor a step of the search: the
    links and the attacked graph, of which making the latter once takes `apply_ms`.
    """
    dataset, victim, classes = _load(job)
    attack = load_attack("injection", job.attack)
    short = with_settings(attack, iterations=1, patience=None)
    long = with_settings(attack, iterations=job.iterations, patience=None)
    limits = threat(dataset, "full", nodes=job.size.nodes, links=job.size.links)
    on_device = replace(limits, targets=limits.targets.to(job.device))
    known = black_box_view(dataset, classes)
    before = _peak()
    run_attack(short, known, on_device, victim, seed=0)
    run = run_attack(long, known, on_device, victim, seed=0)
    peak, begin = _peak(), time.perf_counter()
    graph = apply(dataset.graph, run.perturbation)
    apply_seconds = time.perf_counter() - begin
    return {
        **_sizes(dataset, job.size),
        "seconds": round(run.seconds, 3),
        "structure_ms": round(1000 * run.structure_seconds, 2),
        "apply_ms": round(1000 * apply_seconds, 2),
        "engine_ms": round(1000 * run.engine_seconds, 2),
        "steps": run.steps,
        "ms_per_step": round(1000 * run.search_seconds / run.steps, 3) if run.steps else None,
        "before_mib": before,
        "peak_mib": peak,
        **_accelerator(job.device),
        "attacked": accuracy(victim, graph, limits.targets),
        **spent(run.perturbation, limits, dataset.num_nodes),
        "threads": job.threads,
        "notes": run.perturbation.notes,
    }


def measure_peer(job: Job) -> Row:
    """Measure the peer's attack of the same name on the same weights."""
    dataset, victim, _ = _load(replace(job, device="cpu"))
    limits = threat(dataset, "full", nodes=job.size.nodes, links=job.size.links)
    before, attack = _peak(), partial(run_peer, job.attack, victim, dataset.graph, limits, seed=0)
    attack(iterations=1)
    run = attack(iterations=job.iterations)
    peak, steps = _peak(), run.rounds * job.iterations
    return {
        **_sizes(dataset, job.size),
        "seconds": round(run.seconds, 3),
        "structure_ms": round(1000 * run.structure_seconds, 2),
        "steps": steps,
        "ms_per_step": round(1000 * (run.seconds - run.structure_seconds) / steps, 3),
        "before_mib": before,
        "peak_mib": peak,
        "attacked": accuracy(victim, run.graph, limits.targets),
        "edges": run.edges,
        "outside_range": run.outside_range,
        "threads": job.threads,
    }


def _load(job: Job) -> tuple[Dataset, Victim, Tensor]:
    """Return the graph, the surrogate and its classes on the clean graph, on the job's device."""
    torch.set_num_threads(job.threads)
    dataset = load_dataset(str(job.folder), [])
    dataset = replace(dataset, graph=dataset.graph.to(job.device))
    adapter = untrained(raw_gcn, dataset, name=SURROGATE, seed=0)
    with np.load(job.weights) as arrays:
        state = {name: torch.from_numpy(arrays[name]) for name in arrays}
    classes = state.pop("classes").to(job.device)
    adapter.module.load_state_dict(state)
    adapter.module.to(job.device)
    freeze(adapter.module)
    return dataset, Victim(adapter, dataset.num_classes), classes


def _sizes(dataset: Dataset, size: Size) -> Row:
    return {
        "num_nodes": dataset.num_nodes,
        "num_edges": dataset.num_edges,
        "features": dataset.num_features,
        "targets": dataset.test["full"].numel(),
        "injected": size.nodes,
        "links": size.links,
    }


def _peak() -> int:
    """Return the peak resident MiB of this process."""
    return round(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB)


def _accelerator(device: str) -> Row:
    if torch.device(device).type != "cuda":
        return {}
    return {"device": device, "device_peak_mib": torch.cuda.max_memory_allocated(device) // MIB}


def _draw(rows: Sequence[Row], folder: Path) -> None:
    """Draw time for each step and peak memory against edges, one line for each attack."""
    attacks = [row for row in rows if "ms_per_step" in row]
    lines = {
        f"{attack} ({side})": sorted(group, key=lambda row: int(row["num_edges"]))
        for (attack, side), group in grouped(attacks, ("attack", "side")).items()
    }
    panels = []
    for title, figure in (("ms per step", "ms_per_step"), ("peak MiB", "peak_mib")):
        points = {
            label: [(row["num_edges"], row[figure]) for row in group if row[figure] is not None]
            for label, group in lines.items()
        }
        panels.append(Panel(title, "edges", points, log_x=True, log_y=True))
    draw(panels, folder / "scale.svg")
