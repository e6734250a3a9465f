"""Record what one repeat of each case of the suite `standard` takes, from the smallest graph on.

A process for each dataset appends a JSON line for each row to the file, so that an interrupted
recording is resumed. `cold` is the first evaluation of a case and `warm` the second, when the store
has what does not depend on the victim; both are without the training of any model, which has a row
of its own. `worst` is left out: its members are measured by then.

A row that takes longer or more memory than the limits is given up and gets an error. At the end
such rows, and those for which no time was left, are extrapolated: for each attack (and for
training) by the non-negative least squares of the relative errors of

    seconds = a + b * nodes + c * (undirected) edges + d * targets

over the datasets that were measured. These rows are marked `extrapolated`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import nnls

from benchmarks.custom_graph import custom_preset
from benchmarks.rows import Row, markdown
from benchmarks.synthetic import PRESETS, SYNTHETIC_CORA, Preset, prepare
from grb_check.attacks.names import WORST, base_name
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.suites import SUITES

MODEL: Final = "grb_check.models:gcn"
TRAINING: Final = "training"
# A size beside that of the bundled graph, so that there is something to extrapolate from.
BETWEEN: Final = ((6_000, 24_000),)
COLUMNS: Final = ("dataset", "measured", "extrapolated", "training", "cold", "warm")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a row.

    Attributes:
        seconds: of its two evaluations.
        training_seconds: of all that is done before the first row: the graph, and all trainings.
        mib: resident memory of the process.
        until: `time.monotonic()` at which the recording ends.
    """

    seconds: float
    training_seconds: float
    mib: float
    until: float


def sizes() -> dict[str, Preset]:
    """Return the presets of all datasets, the smallest first."""
    presets = [SYNTHETIC_CORA, *(custom_preset(*size) for size in BETWEEN), *PRESETS.values()]
    return {
        size_preset.name: size_preset
        for size_preset in sorted(presets, key=lambda graph_preset: graph_preset.num_edges)
    }


def cells() -> list[str]:
    """Return `difficulty/scenario/attack` of the suite `standard`, without `worst`."""
    return [
        f"{difficulty}/{scenario}/{attack}"
        for scenario, attack in SUITES["standard"].attacks
        for difficulty in DIFFICULTIES
        if base_name(attack) != WORST
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="JSON lines; resumed if it exists")
    parser.add_argument("--minutes", type=float, default=20, help="of the whole recording")
    parser.add_argument("--seconds", type=float, default=40, help="limit of a row")
    parser.add_argument("--training-seconds", type=float, default=400, help="limit of a training")
    parser.add_argument("--mib", type=float, default=6000, help="limit of a process's memory")
    parser.add_argument("--datasets", nargs="+", choices=list(sizes()), help="default: all")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Record what the file lacks, extrapolate the rest, and yield a row for each dataset."""
    limits = Limits(
        seconds=options.seconds,
        training_seconds=options.training_seconds,
        mib=options.mib,
        until=time.monotonic() + 60 * options.minutes,
    )
    names = [name for name in sizes() if name in (options.datasets or sizes())]
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            _record(name, options.out, Path(temporary), limits)
    done = extrapolated(read(options.out), list(sizes()))
    options.out.write_text("".join(json.dumps(row) + "\n" for row in done), "utf-8")
    for name in names:
        yield _summary(name, [row for row in done if row["dataset"] == name])


def table(rows: Sequence[Row]) -> str:
    """Return a line for each dataset: seconds of one training, and of all cases in one repeat."""
    return markdown(rows, COLUMNS)


def read(path: Path) -> list[Row]:
    """Return the rows of a recording."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _record(name: str, out: Path, home: Path, limits: Limits) -> None:
    """Record a dataset in processes of their own, each of which ends where a limit is broken."""
    while remaining := missing(name, read(out)):
        if time.monotonic() >= limits.until:
            return
        process = multiprocessing.get_context("spawn").Process(
            target=measure, args=(name, remaining, out, home)
        )
        process.start()
        try:
            broken = _watch(process, out, limits)
        finally:
            process.kill()
            process.join()
        if time.monotonic() >= limits.until:
            return
        left = missing(name, read(out))
        if left:
            _append(out, {"dataset": name, "what": left[0], "error": broken or "the process died"})
        if left[:1] == [TRAINING]:  # no case can do without the models
            return


def missing(name: str, known: Sequence[Row]) -> list[str]:
    done = {
        row["what"]
        for row in known
        if row["dataset"] == name and ("extrapolated" not in row or "error" in row)
    }
    return [cell for cell in (TRAINING, *cells()) if cell not in done]


def _append(out: Path, row: Row) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _watch(process: SpawnProcess, out: Path, limits: Limits) -> str:
    """Wait for the end of a process; return the limit that it broke, if any."""
    begun, since, count = False, time.monotonic(), len(read(out))
    while process.is_alive():
        process.join(0.2)
        now, there = time.monotonic(), len(read(out))
        if there > count:
            begun, since, count = True, now, there
        allowed = limits.seconds if begun else limits.training_seconds
        if now - since > allowed or now > limits.until:
            return f"longer than {allowed:g} s"
        if _resident_mib(process.pid) > limits.mib:
            return f"more than {limits.mib:g} MiB"
    return ""


def _resident_mib(pid: int | None) -> float:
    try:
        match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"))
    except OSError:
        return 0.0
    return int(match[1]) / 1024 if match else 0.0


def measure(name: str, remaining: Sequence[str], out: Path, home: Path) -> None:
    """Train the models of a dataset, then measure and append each row that is missing."""
    # Late, for torch: the parent needs none.
    from benchmarks.custom_graph import make_custom
    from grb_check import datasets
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.store.store import Store
    from grb_check.victims.subject import as_subject

    warnings.simplefilter("ignore")
    preset, path = sizes()[name], name
    if name in PRESETS:
        path = str(prepare(name, home))
    elif preset is not SYNTHETIC_CORA:
        path = make_custom(preset.num_nodes, preset.num_edges, home)["folder"]
    source, subject = datasets.find(path), as_subject(MODEL)
    evaluator = Evaluator(store=Store(home / "store" / name), device="cpu")
    dataset = evaluator.dataset(source)

    def evaluate(cell: str) -> float:
        begin = time.perf_counter()
        evaluator.outcome(subject, source, Case(source.name, *cell.split("/")), 1)
        return round(time.perf_counter() - begin, 3)

    begin = time.perf_counter()
    evaluator.victim(subject, source, 0)
    seconds = round(time.perf_counter() - begin, 3)
    evaluate("easy/injection/rnd+budget=0.001")  # trains surrogates and references
    size = {"nodes": dataset.num_nodes, "edges": dataset.num_edges}
    if TRAINING in remaining:
        _append(out, {"dataset": name, "what": TRAINING, **size, "targets": 0, "cold": seconds})
    for cell in remaining:
        if cell != TRAINING:
            targets = int(dataset.test[cell.partition("/")[0]].numel())
            times = {"cold": evaluate(cell), "warm": evaluate(cell)}
            _append(out, {"dataset": name, "what": cell, **size, "targets": targets, **times})


def extrapolated(known: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return a row for the training and each case of the datasets: measured, or extrapolated.

    What was extrapolated before is computed again; what no dataset has measured is left out.
    """
    measured = [row for row in known if not {"error", "extrapolated"} & set(row)]
    estimates = []
    for name, what in ((name, what) for name in names for what in (TRAINING, *cells())):
        rows = [row for row in known if (row["dataset"], row["what"]) == (name, what)]
        there = [row for row in rows if row in measured]
        alike = [row for row in measured if _kind(row["what"]) == _kind(what)]
        if there or alike:
            estimates.append(there[0] if there else _estimate(sizes()[name], what, alike))
            given_up = [row["error"] for row in rows if "error" in row]
            if given_up:
                estimates[-1] |= {"error": given_up[-1]}
    return estimates


def _kind(what: str) -> str:
    """Return `scenario/attack` of a cell; its difficulties differ in their targets only."""
    return what.partition("/")[2]


def _estimate(preset: Preset, what: str, alike: Sequence[Row]) -> Row:
    difficulty = what.partition("/")[0]
    share = {"easy": 0.1, "medium": 0.1, "hard": 0.1, "full": 0.3}.get(difficulty, 0.0)  # GRB's
    size = {"nodes": preset.num_nodes, "edges": preset.num_edges}
    row: Row = {"dataset": preset.name, "what": what, **size}
    row["targets"] = round(share * preset.num_nodes)
    for which in ("cold", "warm"):
        rows = [record for record in alike if which in record]
        if rows:
            seconds = np.maximum([record[which] for record in rows], 1e-3)
            terms = np.array([_terms(record) for record in rows]) / seconds[:, None]
            factors, _ = nnls(terms, np.ones(len(rows)))
            row[which] = round(float(np.dot(factors, _terms(row))), 3)
    return row | {"extrapolated": True}


def _terms(row: Mapping[str, Any]) -> list[float]:
    # In thousands, for the condition of the least squares.
    return [1.0, *(row[name] / 1000 for name in ("nodes", "edges", "targets"))]


def _summary(name: str, rows: Sequence[Row]) -> Row:
    of_cases = [row for row in rows if row["what"] != TRAINING]
    return {
        "dataset": name,
        "measured": sum("extrapolated" not in row for row in rows),
        "extrapolated": sum("extrapolated" in row for row in rows),
        "training": sum(row["cold"] for row in rows if row["what"] == TRAINING),
        "cold": round(sum(row["cold"] for row in of_cases), 1),
        "warm": round(sum(row["warm"] for row in of_cases), 1),
    }
