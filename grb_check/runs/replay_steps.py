"""Steps of tasks that replay a failed case: its data, one of its repeats, its smallest part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grb_check.cases.case import Case
from grb_check.failures.evidence import SavedRepeat

if TYPE_CHECKING:
    from grb_check.cases.counter_example import CounterExample
    from grb_check.runs.process import Process
    from grb_check.runs.tasks import Task


@dataclass(frozen=True)
class ReplayedRepeat:
    """The result of a repeat now, beside the recorded one."""

    recorded: SavedRepeat
    clean: float
    attacked: float
    same_weights: bool

    @property
    def now(self) -> SavedRepeat:
        return replace(self.recorded, clean=self.clean, attacked=self.attacked)

    @property
    def as_recorded(self) -> bool:
        before = self.recorded
        return (before.clean, before.attacked) == (self.clean, self.attacked)


def data(process: Process, task: Task) -> Iterator[tuple[Case, tuple[str, Mapping[str, int]]]]:
    """The fingerprint of the dataset and its sizes.

    Raises:
        DataError: it cannot be read.
    """
    from grb_check.failures.replay import sizes  # imports torch

    dataset = process.evaluator.dataset(task.on.source)
    yield task.cases[0], (dataset.fingerprint(), sizes(dataset))


def replayed(process: Process, task: Task) -> Iterator[tuple[Case, ReplayedRepeat]]:
    """Apply the perturbation of the `SavedRepeat` that is given for a case.

    Raises:
        BudgetError: its threat forbids it.
        ModelError: the model cannot be trained or called.
    """
    from grb_check.attacks.referee import verify  # imports torch
    from grb_check.failures.replay import replaying

    subject = process.subject(task.on)
    for case, repeat in task.given.items():
        with replaying(process.evaluator, subject, task.on.source, case, repeat.seed) as replay:
            verify(repeat.perturbation, replay.graph, replay.threat)
            after = replay.accuracy(replay.after(repeat.perturbation))
            same = replay.model.weights == repeat.weights
            yield case, ReplayedRepeat(repeat, replay.accuracy(replay.before), after, same)


def shrunk(process: Process, task: Task) -> Iterator[tuple[Case, CounterExample | None]]:
    """Write the smallest counter-example of the path and evidence that are given for a case.

    Raises:
        UsageError, ModelError, OSError: see `counter_examples.save_smallest`.
    """
    from grb_check.failures.counter_examples import save_smallest  # imports torch

    subject = process.subject(task.on)
    for case, (path, evidence) in task.given.items():
        small = save_smallest(path, evidence, process.evaluator, subject, task.on.source)
        yield case, small
