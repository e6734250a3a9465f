"""A run whose tasks are measured: by workers, while this process judges and reports, or in it.

Loads no torch.
"""

from __future__ import annotations

import builtins
import heapq
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from grb_check.cases.case import Case, by_model_and_dataset
from grb_check.cases.outcomes import ENOUGH, CaseResult, RepeatResult, outcome_of
from grb_check.cases.suites import members_of
from grb_check.runs import tasks
from grb_check.runs.calls import Calls, Pending
from grb_check.runs.remaining import Remaining
from grb_check.runs.tasks import Answer, Checked, ModelOnDataset, Setup, Step, Task

# Parts may take these shares of what each worker has to do: with smaller ones more victims are
# trained twice, with larger ones workers wait for the last part. The plan that ends first counts.
LARGEST: Final = (math.inf, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
TRAINING: Final = 10  # cases that a training is taken to be as long as


@dataclass(frozen=True, kw_only=True)
class TimedPart:
    """Cases of one repeat of a model on a dataset, and how long they may take.

    Attributes:
        cases: of the same model and dataset.
        seed: of the repeat.
        seconds: expected duration, in any unit if durations are unknown.
    """

    cases: tuple[Case, ...]
    seed: int
    seconds: float


def plan(
    repeats: Mapping[Case, int], seconds: Mapping[str, float], workers: int
) -> list[TimedPart]:
    """Divide a run into parts, each for one victim, the longest first.

    One part for each victim, so that each is trained once; a victim whose cases would keep one
    worker busy while others have nothing left to do is trained several times instead.

    Args:
        repeats: number of repeats of each case.
        seconds: expected for one repeat of a case, without training, by id; those that are missing
            are given the median.
        workers: that may run parts at the same time.

    Returns:
        Parts that hold each case and repeat once. With equal durations they are in the order of the
        cases, and of the repeats.
    """
    known = [seconds[case.id] for case in repeats if case.id in seconds]
    usual = statistics.median(known) if known else 1.0
    expected = {case: seconds.get(case.id, usual) for case in repeats}
    victims, training = _by_victim(repeats), TRAINING * usual
    total = sum(training + _sum(cases, expected) for _, cases in victims)

    def divided(share: float) -> list[TimedPart]:
        limit = share * total / workers if workers > 1 else math.inf
        parts = [
            TimedPart(
                cases=tuple(part_cases), seed=seed, seconds=training + _sum(part_cases, expected)
            )
            for seed, cases in victims
            for part_cases in _shares(cases, expected, limit, training)
        ]
        return sorted(parts, key=lambda part: -round(part.seconds, 3))

    def length(parts: list[TimedPart]) -> float:
        return round(end([part.seconds for part in parts], workers), 3)

    return min(map(divided, LARGEST), key=length)


def end(seconds: Sequence[float], workers: int) -> float:
    """Return when the last part ends, if each worker takes the next one when it is free.

    Args:
        seconds: that the parts take, in the order in which they are begun.
        workers: number of them.
    """
    free = [0.0] * workers
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def _sum(cases: Sequence[Case], seconds: Mapping[Case, float]) -> float:
    return sum(seconds[case] for case in cases)


def _by_victim(repeats: Mapping[Case, int]) -> list[tuple[int, list[Case]]]:
    """The seed of each victim, and its cases."""
    result: dict[tuple[str, str, int], list[Case]] = {}
    for seed in range(max(repeats.values(), default=0)):
        for case, count in repeats.items():
            if seed < count:
                result.setdefault((case.model, case.dataset, seed), []).append(case)
    return [(seed, cases) for (_, _, seed), cases in result.items()]


def _shares(
    cases: Sequence[Case], seconds: Mapping[Case, float], limit: float, training: float
) -> list[list[Case]]:
    """Divide the cases of a victim so that none of the shares is much above the limit.

    A share takes at least as long as the training that it costs.
    """
    total = _sum(cases, seconds)
    largest = max(limit - training, training, limit / 2)
    needed = math.ceil(total / largest) if total > 0.0 else 1
    count = max(1, min(needed, len(cases)))
    shares: list[list[Case]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for case in sorted(cases, key=lambda case: -seconds[case]):
        least = loads.index(min(loads))
        shares[least].append(case)
        loads[least] += seconds[case]
    return [sorted(share, key=cases.index) for share in shares]


_WAKE: Final = 0.2  # seconds between two looks at a future, so that Ctrl-C is noticed


class RemoteWarning(UserWarning):
    """A warning of a worker whose class is not one of Python's."""


class Terminal(Protocol):
    """Shows how far a run is; see `session.running`."""

    def poll(self, text: Callable[[], str]) -> None:
        """Show a text that may have changed; called several times a second."""

    def log(self, text: Callable[[], str]) -> None:
        """Do the same, if it is a log; called when something was measured in this process."""

    def clear(self) -> None:
        """Remove what is shown."""


class Measuring:
    """Measures the cases of a run.

    Args:
        calls: runs the tasks; it is closed with this object.
        setup: of the run.
        model_of: the model on the dataset of a case.
        terminal: shows what is done while a result is waited for.

    Attributes:
        devices: on which tasks have run.
        environments: that tasks have run in, see `measured_with`, each once.
    """

    def __init__(
        self,
        calls: Calls,
        setup: Setup,
        model_of: Callable[[Case], ModelOnDataset],
        terminal: Terminal | None = None,
    ) -> None:
        self.calls = calls
        self.devices: dict[str, None] = {}
        self.environments: list[Mapping[str, str]] = []
        self._setup = setup
        self._model_of = model_of
        self._terminal = terminal
        self._planned: dict[tuple[Case, int], Pending] = {}
        self._members: dict[Case, tuple[Case, ...]] = {}  # of cases `worst`
        self._warned: set[tuple[str, str]] = set()
        self._remaining = Remaining({})

    def check(self, cases: Iterable[Case], repeats: int) -> dict[Case, Checked]:
        """Check the model, the dataset and the pack of these cases.

        Args:
            cases: of the run.
            repeats: number of repeats of the run.

        Returns:
            What was found, by the first case of each model and dataset.

        Raises:
            DataError, ModelError, UsageError: the first that a task raised.
            LostError: a worker was lost twice.
        """
        groups = [tuple(group) for group in by_model_and_dataset(cases)]
        calls = [self.calls.submit(self._task(tasks.check, group, 0, repeats)) for group in groups]
        result: dict[Case, Checked] = {}
        with self._cleared():
            for call in calls:
                result |= self._wait(call).values
        return result

    def plan(self, repeats: Mapping[Case, int], seconds: Mapping[str, float]) -> None:
        """Give all cases to the workers.

        Args:
            repeats: number of repeats of each case.
            seconds: that one repeat of a case may take, by id.
        """
        for case in repeats:
            self._members[case] = self._members_of(case, repeats)
        measured = {case: count for case, count in repeats.items() if not self._members[case]}
        self._remaining = Remaining(measured)
        if not self.calls.width:
            return
        for part in plan(measured, seconds, self.calls.width):
            most = max(repeats[case] for case in part.cases)
            self._submit(part.cases, part.seed, most)

    def result(
        self, case: Case, name: str, repeats: int, on: ModelOnDataset | None = None
    ) -> CaseResult:
        """Return a case with the results of all repeats, which are waited for.

        Args:
            case: to measure.
            name: of the model, for reports.
            repeats: number of them.
            on: another model than the one that the case names.

        Raises:
            GrbCheckError: as `Evaluator.repeat`; `LostError` if workers were lost.
        """
        results = self._results(case, repeats, on)

        def of(
            repeat_results: list[RepeatResult], further: Callable[[], CaseResult] | None
        ) -> CaseResult:
            outcome = outcome_of(case, name, repeat_results)
            return CaseResult(outcome=outcome, results=tuple(repeat_results), further=further)

        def beside_all() -> CaseResult:
            full = self._with_references(case, results, on)

            def confirmed() -> CaseResult:
                more = self._results(case, ENOUGH, on)[repeats:]
                return of([*full, *self._with_references(case, more, on)], None)

            return of(full, confirmed if repeats < ENOUGH else None)

        return of(results, beside_all)

    def _results(self, case: Case, repeats: int, on: ModelOnDataset | None) -> list[RepeatResult]:
        members = self._members.get(case, ()) if on is None else ()
        if members:
            from grb_check.evaluation.worst import worst_result  # imports numpy

            every = [self._results(member, repeats, None) for member in members]
            names = [member.attack for member in members]
            return [
                worst_result(names, member_results) for member_results in zip(*every, strict=True)
            ]
        if on is not None:
            task = [
                self._task(tasks.measure, (case,), seed, repeats, on) for seed in range(repeats)
            ]
            calls: list[Pending] = [self.calls.submit(repeat_task) for repeat_task in task]
        else:
            for seed in range(repeats):
                if (case, seed) not in self._planned:
                    self._submit((case,), seed, repeats)
            calls = [self._planned[case, seed] for seed in range(repeats)]
        with self._cleared():
            return [_raised(self._wait(call).values[case]) for call in calls]

    def _with_references(
        self, case: Case, results: Sequence[RepeatResult], on: ModelOnDataset | None
    ) -> list[RepeatResult]:
        """Results with the scores of all references."""
        calls = []
        for result in results:
            task = self._task(tasks.references, (case,), result.measurement.seed, len(results), on)
            lean = replace(result, perturbation=b"")
            calls.append(self.calls.submit(replace(task, given={case: lean})))
        with self._cleared():
            full = [_raised(self._wait(call).values[case]) for call in calls]
        return [
            replace(one, perturbation=result.perturbation)
            for one, result in zip(full, results, strict=True)
        ]

    @property
    def left(self) -> str:
        """How far the run is, and how long the rest may take; empty before anything was measured.

        What workers have measured counts before it is asked for.
        """
        for pending in {id(row): row for row in self._planned.values()}.values():
            if self.calls.width and pending.done():
                with suppress(Exception):  # who waits for it is told
                    self._remaining.book(pending.result().values)
        return self._remaining.told(self.calls.width)

    def progress(self) -> str:
        """The same, and before that what is done."""
        begun = "no task is done yet" if self._planned else "checking models and data"
        return self.left or begun

    def close(self) -> None:
        """End all work, and release the workers."""
        self.calls.close()

    def _members_of(self, case: Case, repeats: Mapping[Case, int]) -> tuple[Case, ...]:
        """The cases that `worst` is put together from, if the run has them all; else nothing."""
        of_graphs = self._model_of(case).source.of_graphs
        members = members_of(case, self._setup.selected, of_graphs=of_graphs)
        if members == (case,):
            return ()
        there = all(repeats.get(member, 0) >= repeats[case] for member in members)
        return members if there else ()

    def _task(
        self,
        step: Step,
        cases: tuple[Case, ...],
        seed: int,
        repeats: int,
        on: ModelOnDataset | None = None,
    ) -> Task:
        return Task(
            step=step,
            setup=self._setup,
            on=on or self._model_of(cases[0]),
            cases=cases,
            seed=seed,
            repeats=repeats,
        )

    def _submit(self, cases: tuple[Case, ...], seed: int, repeats: int) -> Pending:
        pending = self.calls.submit(self._task(tasks.measure, cases, seed, repeats))
        self._planned |= {(case, seed): pending for case in cases}
        return pending

    def _wait(self, pending: Pending) -> Answer:
        """Return an answer; take down where the task ran, and give its warnings, each once."""
        while isinstance(pending, Future) and not pending.done():
            wait([pending], timeout=_WAKE)
            if self._terminal is not None:
                self._terminal.poll(self.progress)
        answer = pending.result()
        for (case, seed), planned in self._planned.items():
            if planned is pending:
                self._remaining.end(case, seed)
        self._remaining.book(answer.values)
        if self._terminal is not None and not self.calls.width:
            self._terminal.log(self.progress)
        self.devices[answer.device] = None
        if answer.environment not in self.environments:
            self.environments.append(answer.environment)
        for category, text, file, line in answer.warnings:
            if (category, text) not in self._warned:
                self._warned.add((category, text))
                warnings.warn_explicit(text, _category(category), file, line)
        return answer

    @contextmanager
    def _cleared(self) -> Iterator[None]:
        """Remove the progress when the waiting is over."""
        try:
            yield
        finally:
            if self._terminal is not None and self.calls.width:
                self._terminal.clear()


def joined(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return one environment for several; values that differ are all named."""
    names = {name: None for environment in environments for name in environment}
    return {
        name: " | ".join(
            sorted({environment[name] for environment in environments if name in environment})
        )
        for name in names
    }


def _raised(value: Any) -> Any:
    """The result of a case, or its error raised."""
    if isinstance(value, Exception):
        raise value
    return value


def _category(name: str) -> type[Warning]:
    result = getattr(builtins, name, None)
    return result if isinstance(result, type) and issubclass(result, Warning) else RemoteWarning
