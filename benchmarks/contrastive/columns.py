"""Timed runs of one model on one dataset under all attacks, through the harness as users run it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from benchmarks.contrastive.row_file import append_rows
from benchmarks.contrastive.tasks import TASKS
from benchmarks.memory import peak_mib
from benchmarks.rows import Row
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Measurement, Outcome
from grb_check.datasets import Source
from grb_check.errors import GrbCheckError
from grb_check.evaluation.evaluator import Evaluator
from grb_check.store.store import Store
from grb_check.user_code.factories import load_factory
from grb_check.victims.subject import as_subject
from grb_check.victims.wrappers import Encoder, SelfTrained


@dataclass(frozen=True, kw_only=True)
class Column:
    """Work of one process.

    Attributes:
        task: name of the task.
        dataset: as it was asked for.
        model: as it was asked for.
        attacks: `scenario/name`, in order.
        seeds: how many repeats, each with its own training.
        data: folder of the datasets.
        out: file of rows.
        store: folder of the harness's own models and of perturbations.
    """

    task: str
    dataset: str
    model: str
    attacks: tuple[str, ...]
    seeds: int
    data: Path
    out: Path
    store: Path

    @property
    def source(self) -> Source:
        return TASKS[self.task].source(self.dataset, self.data)

    @property
    def head(self) -> Row:
        """Return the fields that all its rows begin with."""
        return {"task": self.task, "dataset": self.source.name, "model": self.model}


@dataclass(frozen=True)
class Clock:
    """Durations of calls, in order."""

    seconds: list[float] = field(default_factory=list)

    def timed(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return the function timed, with the same signature."""

        @functools.wraps(function)
        def watched(*args: object, **given: object) -> object:
            begin = time.perf_counter()
            try:
                return function(*args, **given)
            finally:
                self.seconds.append(time.perf_counter() - begin)

        return watched

    def of_factory(self, factory: Callable[..., object]) -> Callable[..., object]:
        """Return the factory with models whose own training is timed."""

        @functools.wraps(factory)
        def build(*args: object, **given: object) -> object:
            return self._of_model(factory(*args, **given))

        return build

    def _of_model(self, built: object) -> object:
        if isinstance(built, Encoder) and built.pretrain is not None:
            return replace(built, pretrain=self.timed(built.pretrain))
        if isinstance(built, SelfTrained):
            return replace(built, fit=self.timed(built.fit))
        return built


def measure(column: Column) -> Row:
    """Measure every attack of a column, writing each seed's row at once; return their number.

    A fault of one attack is a row with `error`, and the others go on.
    """
    torch.set_num_threads(1)
    source, clock = column.source, Clock()
    evaluator = Evaluator(store=Store(column.store), device="cpu")
    factory = load_factory(TASKS[column.task].target(column.model))
    subject = as_subject(clock.of_factory(factory), name=column.model)
    evaluator.check(subject, source)
    loaded, rows = peak_mib(), 0
    for attack in column.attacks:
        scenario, name = attack.split("/")
        case = Case(source.name, "full", scenario, name)
        head = column.head | {"attack": attack}
        try:
            outcome = evaluator.outcome(subject, source, case, column.seeds)
        except GrbCheckError as error:
            append_rows(column.out, [head | {"error": f"{type(error).__name__}: {error}"}])
            continue
        columns = _rows(outcome, clock if rows == 0 else None)
        memory = {"loaded_mib": loaded, "peak_mib": peak_mib()}
        append_rows(column.out, [head | row | memory for row in columns])
        rows += len(columns)
    return {"rows": rows}


def _rows(outcome: Outcome, clock: Clock | None) -> list[Row]:
    """Return a row for each seed, with the training times if a clock is given."""
    rows = [_row(repeat, outcome) for repeat in outcome.repeats]
    if clock is None:
        return rows
    for row, repeat in zip(rows, outcome.repeats, strict=True):
        row["training_seconds"] = round(repeat.training_seconds, 3)
    if len(clock.seconds) == len(rows):
        for row, seconds in zip(rows, clock.seconds, strict=True):
            row["pretraining_seconds"] = round(seconds, 3)
    return rows


def _row(repeat: Measurement, outcome: Outcome) -> Row:
    return {
        "seed": repeat.seed,
        "targets": outcome.targets,
        "clean": repeat.victim.clean,
        "attacked": repeat.victim.attacked,
        "drop": repeat.victim.drop,
        "reference_clean": repeat.references["gcn"].clean,
        "reference_drop": repeat.references["gcn"].drop,
        "method": repeat.method,
        "spent": dict(repeat.spent),
        "from_store": repeat.from_store,
        "seconds": round(repeat.seconds - repeat.training_seconds, 3),
        "findings": [finding.text for finding in repeat.diagnostics],
        "notes": list(repeat.notes),
    }
