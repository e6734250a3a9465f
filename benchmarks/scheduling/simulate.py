"""Efficiency of the plan of a run on recorded durations, without running anything.

`timed_parts` divides the run, and each worker takes the next part when it is free. Useful work is
each case once and one training for each victim; a second training of a victim that was divided is
not.
The efficiency is useful work / (workers x time until the last part ends). `bound` is what no plan
can exceed: no run is shorter than its longest case with its training.

The rows differ in the graphs, in the store (`cold`: nothing stored; `warm`: all perturbations), and
in what the plan knows: the durations of an earlier run, or nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.rows import Row, markdown
from benchmarks.scheduling.record import TRAINING, read
from grb_check.attacks.names import WORST
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.suites import SUITES
from grb_check.runs.schedule import TimedPart, end, timed_parts

FILE: Final = Path(__file__).parent / "durations.jsonl"
RUNS: Final = (
    ("synthetic-cora",),
    ("synthetic-cora", "synthetic-6000-24000"),
    ("synthetic-cora", "synthetic-6000-24000", "synthetic-flickr"),
    ("synthetic-flickr", "synthetic-aminer", "synthetic-reddit"),
)
COLUMNS: Final = (
    "datasets",
    "repeats",
    "store",
    "durations",
    "workers",
    "parts",
    "hours",
    "longest_hours",
    "efficiency",
    "bound",
)


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Seconds of the cases by id, and of the training of a victim by dataset."""

    cases: Mapping[str, float]
    training: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A simulated run.

    Attributes:
        parts: number of parts.
        seconds: until the last part ends.
        longest: part, in seconds.
        efficiency: useful work / (workers x seconds).
        bound: the same for a plan that has every worker busy until the end, or as long as the
            longest case takes.
    """

    parts: int
    seconds: float
    longest: float
    efficiency: float
    bound: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, nargs="+", default=[64])
    parser.add_argument("--durations", type=Path, default=FILE, help="a file of `record`")
    parser.add_argument("--repeats", type=int, nargs="+", default=[3, 10])


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each run, number of repeats, store and number of workers."""
    recorded = read(options.durations)
    for datasets in RUNS:
        for repeats in options.repeats:
            for store in ("cold", "warm"):
                truth = durations(recorded, datasets, store)
                cases = {case: repeats for dataset in datasets for case in suite(dataset)}
                for workers in options.workers:
                    for known in ("known", "unknown"):
                        known_seconds = truth.cases if known == "known" else {}
                        simulated = simulate(
                            cases, truth, timed_parts(cases, known_seconds, workers), workers
                        )
                        yield {
                            "datasets": ", ".join(dataset_name[10:] for dataset_name in datasets),
                            "repeats": repeats,
                            "store": store,
                            "durations": known,
                            "workers": workers,
                            "parts": simulated.parts,
                            "hours": round(simulated.seconds / 3600, 3),
                            "longest_hours": round(simulated.longest / 3600, 3),
                            "efficiency": round(simulated.efficiency, 3),
                            "bound": round(simulated.bound, 3),
                        }


def table(rows: Sequence[Row]) -> str:
    """Return a line for each simulated run."""
    return markdown(rows, COLUMNS)


def suite(dataset: str) -> list[Case]:
    """Return the cases of the suite `standard` on a dataset.

    `worst` is put together from the results of the other cases, and takes no time.
    """
    return [
        Case(dataset, difficulty, scenario, attack)
        for difficulty in DIFFICULTIES
        for scenario, attack in SUITES["standard"].attacks
        if attack != WORST
    ]


def durations(recorded: Sequence[Row], datasets: Sequence[str], store: str) -> Durations:
    """Return the recorded seconds of the cases on these datasets, `cold` or `warm`."""
    there = [row for row in recorded if row["dataset"] in datasets]
    cases = {f"{row['dataset']}/{row['what']}": row[store] for row in there if store in row}
    training = {row["dataset"]: row["cold"] for row in there if row["what"] == TRAINING}
    return Durations(cases=cases, training=training)


def simulate(
    cases: Mapping[Case, int], truth: Durations, parts: Sequence[TimedPart], workers: int
) -> Simulated:
    """Return what the parts cost if each worker takes the next one when it is free.

    Args:
        cases: of the run, with their repeats.
        truth: what cases and trainings take.
        parts: in the order in which they are begun.
        workers: number of them.

    Raises:
        ValueError: the parts are not the run.
    """
    planned = sorted((case, part.seed) for part in parts for case in part.cases)
    if planned != sorted((case, seed) for case, count in cases.items() for seed in range(count)):
        raise ValueError("the parts do not hold each case and repeat once")
    taken = [
        truth.training[part.cases[0].dataset]
        + sum(truth.cases[part_case.id] for part_case in part.cases)
        for part in parts
    ]
    victims = {(case.dataset, seed) for case, seed in planned}
    useful = sum(truth.cases[case.id] for case, _ in planned)
    useful += sum(truth.training[name] for name, _ in victims)
    longest = max(truth.cases[case.id] + truth.training[case.dataset] for case in cases)
    last = end(taken, workers)
    return Simulated(
        parts=len(parts),
        seconds=last,
        longest=max(taken),
        efficiency=useful / (workers * last),
        bound=useful / max(useful, workers * longest),
    )
