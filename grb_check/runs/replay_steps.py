"""Steps of tasks that replay a failed case: its data, one of its repeats, its smallest part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grb_check.cases.case import Case
from grb_check.failures.evidence import SavedRepeat

if TYPE_CHECKING:
    from torch import Tensor

    from grb_check.attacks.threat import Perturbation
    from grb_check.cases.counter_example import CounterExample
    from grb_check.failures.replay import Replay
    from grb_check.runs.process import Process
    from grb_check.runs.tasks import Task


@dataclass(frozen=True)
class LostTarget:
    """A target that was right, and is lost to changes that were made for it alone.

    Attributes:
        target: number of the node.
        now: class that it has then.
        added, removed: pairs of nodes.
    """

    target: int
    now: int
    added: tuple[tuple[int, int], ...]
    removed: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SingleTargets:
    """What becomes of nodes that are attacked each on its own.

    Attributes:
        lost: with the changes that were made for them.
        kept: numbers of those that keep their class.
        wrong: numbers of those that were wrong without the attack.
    """

    lost: tuple[LostTarget, ...]
    kept: tuple[int, ...]
    wrong: tuple[int, ...]


@dataclass(frozen=True)
class ReplayedRepeat:
    """The result of a repeat now, beside the recorded one.

    Attributes:
        apart: None if the case does not attack single nodes.
    """

    recorded: SavedRepeat
    clean: float
    attacked: float
    same_weights: bool
    apart: SingleTargets | None = None

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
            after = replay.after(repeat.perturbation)
            same = replay.model.weights == repeat.weights
            clean, attacked = map(replay.accuracy, (replay.before, after))
            apart = _apart(replay, repeat.perturbation, after)
            yield case, ReplayedRepeat(repeat, clean, attacked, same, apart)


def _apart(replay: Replay, perturbation: Perturbation, after: Tensor) -> SingleTargets | None:
    if replay.threat.target_budgets is None or replay.threat.parts:  # gangs are no targets
        return None
    right, kept = (predicted == replay.classes for predicted in (replay.before, after))
    return SingleTargets(
        lost=tuple(_lost(replay, perturbation, after, right & ~kept)),
        kept=tuple(replay.targets[right & kept].tolist()),
        wrong=tuple(replay.targets[~right].tolist()),
    )


def _lost(
    replay: Replay, perturbation: Perturbation, after: Tensor, lost: Tensor
) -> Iterator[LostTarget]:
    for index in lost.nonzero().squeeze(1).tolist():
        own = perturbation.of_target(index)
        yield LostTarget(
            target=int(replay.targets[index]),
            now=int(after[index]),
            added=tuple(map(tuple, own.added_edges.T.tolist())),
            removed=tuple(map(tuple, own.removed_edges.T.tolist())),
        )


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
