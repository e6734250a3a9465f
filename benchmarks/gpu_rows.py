"""The rows of `gpu`.

* `agreement-gcn`, `agreement-layers`: attacks on the bundled graph, with the same weights on the
  CPU and on the device; accuracies must agree within a few points. Few steps: it is about
  arithmetic.
* `tdgia-aminer`, `tdgia-reddit`: GRB's TDGIA with Table 12's settings of `full` on generated graphs
  of these sizes, against a GCN of GRB's size trained by the harness. The paper gives 4,079 s and
  6,892 s on a V100; the goals are 60 s and 120 s.
* `prbcd-arxiv`: PR-BCD on 169,343 nodes and 1.2 million edges, 5 % of the edges.
* `jobs-auto`: a small run of pytest with `--grb-jobs=auto` and without, and the largest
  difference of accuracies.

Generating graphs and training are not part of `seconds`. `peak_mib` is of the process, and
`device_peak_mib` what torch allocated on the GPU, each up to the last figure of the row.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch_geometric.data import Data

from benchmarks.custom_graph import make_custom
from benchmarks.injection.arena import with_settings
from benchmarks.memory import peak_mib
from benchmarks.rows import Row
from benchmarks.synthetic import PRESETS, SYNTHETIC_CORA, prepare
from benchmarks.victims import accuracy, black_box_view, load_dataset, predicted, trained
from grb_check import models
from grb_check.attacks.budgets import settings_for, threat_of
from grb_check.attacks.protocol import Attack
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import Pair, attack_names, is_targeted, load_attack
from grb_check.attacks.scenarios import POISONING
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import SMALL as SMALL_GRAPH
from grb_check.evaluation.surrogates import surrogate
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import derive_seed

MIB: Final = 2**20
TOLERANCE: Final = 2.0  # percentage points of the targets
# Rounding decides which random pairs enter its blocks: on the CPU, weights changed by one part in
# a million move its accuracy by up to 4.5 points in so few steps.
SENSITIVE: Final = {"prbcd": 8.0}
FEW: Final = {"iterations": 20, "exchanges": 20, "steps": 20, "forwards": 20, "patience": None}
EPOCHS: Final = 50
SMALL: Final = {
    "synthetic-aminer": (600, 2_400),
    "synthetic-reddit": (500, 4_000),
    "arxiv": (600, 3_600),
    "cora": (200, 600),
}
ARXIV: Final = (169_343, 1_166_243)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The place of a row: the folder of the graphs, the device, and `full` or `small`."""

    graphs: str
    device: str
    scale: str


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A row: what it measures, its limit in seconds, and the goal and the paper's figure."""

    name: str
    measure: Callable[[Job], Iterator[Row]]
    limit: float
    goal: float | None = None
    paper: float | None = None


def peaks(device: str) -> Row:
    """Return the peak memory of this process, and of its tensors on the GPU."""
    measured_peaks: Row = {"peak_mib": peak_mib()}
    if torch.device(device).type == "cuda":
        measured_peaks["device_peak_mib"] = torch.cuda.max_memory_allocated(device) // MIB
    return measured_peaks


def attacked_at_scale(scenario: str, name: str, graph: str, named: str, job: Job) -> Iterator[Row]:
    """Attack a GCN on a large graph, first for a few steps and then in full.

    Args:
        scenario, name: of the attack.
        graph: a preset, or `arxiv`.
        named: the dataset whose published budget, settings and architecture apply.
        job: where.
    """
    begin = time.perf_counter()
    folder = _graph(graph, job)
    yield {"graph_seconds": _since(begin)}
    begin = time.perf_counter()
    dataset = _loaded(folder)
    dataset = replace(dataset, name=named, graph=dataset.graph.to(job.device))
    _wait(job.device)
    size = {"nodes": dataset.num_nodes, "edges": dataset.num_edges}
    yield {**size, "loading_seconds": _since(begin)}
    begin = time.perf_counter()
    victim = surrogate(dataset, seed=0, device=torch.device(job.device))
    _wait(job.device)
    yield {"training_seconds": _since(begin)}
    known = black_box_view(dataset, predicted(dataset.graph, victim))
    attack = load_attack(scenario, name, settings_for(dataset, scenario))
    limits = threat_of(dataset, "full", scenario, name)
    if job.scale == "small":
        attack = with_settings(attack, iterations=10)
    short = with_settings(attack, iterations=10, patience=None)
    steps = 10 * int(getattr(attack, "rounds", 1))
    for _ in range(2):  # the first loads kernels
        seconds, _perturbation = _timed(short, known, limits, victim, job.device)
    yield {"ms_per_step": round(1000 * seconds / steps, 2)}  # with what is done once a round
    seconds, perturbation = _timed(attack, known, limits, victim, job.device)
    yield {"seconds": round(seconds, 2), "notes": list(perturbation.notes)}
    begin = time.perf_counter()
    verify(perturbation, dataset.graph, limits)
    graph_after = apply(dataset.graph, perturbation)
    yield {
        "verify_seconds": _since(begin),
        "clean": accuracy(victim, dataset.graph, limits.targets),
        "attacked": accuracy(victim, graph_after, limits.targets),
    }


def _timed(
    attack: Attack, known: Data, limits: Threat, victim: Victim, device: str
) -> tuple[float, Perturbation]:
    there = limits.copied_to(torch.device(device))
    generator = torch.Generator().manual_seed(derive_seed("attack", attack.name, 0))
    _wait(device)
    begin = time.perf_counter()
    perturbation = attack.perturb(known, there, victim, generator)
    _wait(device)
    return time.perf_counter() - begin, perturbation


def agreement(names: tuple[str, ...], pairs: tuple[Pair, ...], job: Job) -> Iterator[Row]:
    """Attack the same weights on the CPU and on the device; an entry of `attacks` for each.

    Args:
        names: of models in `grb_check.models`.
        pairs: the attacks.
        job: where; at small scale on a smaller graph than the bundled one.
    """
    dataset = _loaded(_graph("cora", job))
    epochs, settings = (EPOCHS, FEW) if job.scale == "full" else (3, FEW | {"iterations": 3})
    rows: list[Row] = []
    for name in names:
        make = getattr(models, name)
        victim = trained(make, dataset, name=name, seed=0, epochs=epochs)
        adapter = replace(victim.adapter, module=copy.deepcopy(victim.module).to(job.device))
        moved = replace(dataset, graph=dataset.graph.clone().to(job.device))
        on_cpu = _Side(dataset, victim, "cpu")
        there = _Side(moved, replace(victim, adapter=adapter), job.device)
        yield {"nodes": dataset.num_nodes, "edges": dataset.num_edges}
        for scenario, attack in pairs:
            row: Row = {"model": name, "attack": f"{scenario}/{attack}"}
            try:
                row |= _compared(
                    with_settings(load_attack(scenario, attack), **settings), on_cpu, there
                )
            except Exception as error:  # it costs this attack alone
                row["error"] = f"{type(error).__name__}: {error}"[:300]
            rows.append(row)
            yield {"attacks": rows, "seconds": round(sum(r.get("seconds", 0.0) for r in rows), 2)}


@dataclass(frozen=True, eq=False)
class _Side:
    """A dataset and a model on one device."""

    dataset: Dataset
    victim: Victim
    device: str

    def attacked(self, attack: Attack) -> tuple[float, float]:
        """Return the accuracy in percent under an attack, and its seconds."""
        limits = threat_of(self.dataset, "easy", attack.scenario, attack.name)
        known = black_box_view(self.dataset, predicted(self.dataset.graph, self.victim))
        seconds, perturbation = _timed(attack, known, limits, self.victim, self.device)
        verify(perturbation, self.dataset.graph, limits)
        after = apply(self.dataset.graph, perturbation)
        return accuracy(self.victim, after, limits.targets), round(seconds, 3)


def _compared(attack: Attack, on_cpu: _Side, there: _Side) -> Row:
    expected, cpu_seconds = on_cpu.attacked(attack)
    perturbation, seconds = there.attacked(attack)
    return {
        "cpu": expected,
        "device": perturbation,
        "cpu_seconds": cpu_seconds,
        "seconds": seconds,
        "same": abs(expected - perturbation) <= SENSITIVE.get(attack.name, TOLERANCE),
    }


def jobs_auto(job: Job) -> Iterator[Row]:
    """Run pytest in one process and with `--grb-jobs=auto`, and compare the cases."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name, more in (("plain", ()), ("jobs", ("--grb-jobs=auto",))):
            begin = time.perf_counter()
            output = _pytest(Path(folder), name, more, job)
            yield {f"{name}_seconds": _since(begin)}
            record = json.loads((Path(folder) / f"{name}.json").read_text("utf-8"))
            runs[name] = {case["id"]: _drops(case) for case in record["cases"]}
            header = [line for line in output.splitlines() if re.match(r"grb [\w ]+: ", line)]
            yield {f"{name}_header": header}
    if set(runs["plain"]) != set(runs["jobs"]):
        yield {"error": f"other cases: {sorted(set(runs['plain']) ^ set(runs['jobs']))}"}
        return
    differ = {
        case: max(abs(a - b) for a, b in zip(drops, runs["jobs"][case], strict=True))
        for case, drops in runs["plain"].items()
    }
    yield {"cases": len(differ), "accuracies_differ": round(100 * max(differ.values()), 2)}


def _pytest(folder: Path, name: str, more: tuple[str, ...], job: Job) -> str:
    """Return the output of a run that writes `name.json`; raises if its cases were not run."""
    cases = ("--grb-repeats=2", "--grb-difficulty=easy", "--grb-attack=injection/rnd")
    if job.scale == "full":
        cases = ("--grb-repeats=4", "--grb-attack=injection/fgsm,injection/tdgia,modification/dice")
    source = Path(_graph("cora", job)).absolute() if job.scale == "small" else _graph("cora", job)
    command = [sys.executable, "-m", "pytest", "-p", "grb_check.plugin", "--grb-only"]
    command += ["--grb-model=grb_check.models:gcn", "--grb-max-drop=1", *cases, *more]
    command += [f"--grb-dataset={source}", f"--grb-device={job.device}"]
    command += [f"--grb-json={folder / name}.json", f"--grb-store={folder / name}"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=_environment()
    )
    if done.returncode:
        lines = " / ".join((done.stdout + done.stderr).splitlines()[-8:])
        raise RuntimeError(f"pytest {' '.join(more)} ended with {done.returncode}: {lines}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Return the environment of a process that imports the repository from any folder."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join([root, *sys.path])
    # Whether the package is installed or not, its plugin is loaded once, by `-p`.
    return {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _drops(case: Row) -> list[float]:
    return [repeat["victim"]["attacked"] for repeat in case["outcome"]["repeats"]]


def _graph(name: str, job: Job) -> Path | str:
    """Return the folder of a graph, which is generated at its first use, or the bundled graph."""
    home = Path(job.graphs)
    if job.scale == "full" and name == "cora":
        return SYNTHETIC_CORA.name
    if job.scale == "full" and name in PRESETS:
        return prepare(name, home)
    size = ARXIV if job.scale == "full" else SMALL[name]
    return Path(make_custom(*size, home)["folder"])


def _loaded(source: Path | str) -> Dataset:
    """Return the dataset, and use one thread on the CPU if it is small, as the harness does."""
    dataset = load_dataset(str(source), [])
    if dataset.num_nodes < SMALL_GRAPH:
        torch.set_num_threads(1)
    return dataset


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 2)


def _wait(device: str) -> None:
    """Wait until the device has done what it was given."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


# Attacks on single targets, and the training inside of poisoning, run on the CPU alone.
ALL: Final = tuple(
    pair for pair in attack_names() if pair[0] != POISONING and not is_targeted(*pair)
)
SOME: Final = (
    ("injection", "pgd"),
    ("injection", "tdgia"),
    ("modification", "pgd"),
    ("modification", "prbcd"),
)
ROWS: Final = (
    Measurement(name="agreement-gcn", measure=partial(agreement, ("gcn",), ALL), limit=120),
    Measurement(
        name="tdgia-aminer",
        measure=partial(attacked_at_scale, "injection", "tdgia", "synthetic-aminer", "grb-aminer"),
        limit=300,
        goal=60,
        paper=4079,
    ),
    Measurement(
        name="tdgia-reddit",
        measure=partial(attacked_at_scale, "injection", "tdgia", "synthetic-reddit", "grb-reddit"),
        limit=400,
        goal=120,
        paper=6892,
    ),
    Measurement(
        name="prbcd-arxiv",
        measure=partial(attacked_at_scale, "modification", "prbcd", "arxiv", "ogbn-arxiv"),
        limit=150,
    ),
    Measurement(name="jobs-auto", measure=jobs_auto, limit=200),
    Measurement(
        name="agreement-layers",
        measure=partial(agreement, ("sage", "gin", "gat"), SOME),
        limit=200,
    ),
)
"""The most important first."""
