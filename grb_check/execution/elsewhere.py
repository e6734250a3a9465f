"""A run whose tasks are measured by workers, while this process judges and reports.

Loads no torch.
"""

from __future__ import annotations

import builtins
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from grb_check import datasets, errors
from grb_check.cases.case import Case, by_model_and_dataset
from grb_check.cases.outcomes import Finding
from grb_check.cases.repeat_results import RepeatResult
from grb_check.cases.suites import members_of
from grb_check.errors import GrbCheckError, count
from grb_check.execution.estimate import duration
from grb_check.execution.planning import Durations, plan
from grb_check.execution.retrying import Calls
from grb_check.execution.run_task import (
    check_task,
    costs_task,
    references_task,
    run_task,
    transfers_task,
)
from grb_check.execution.spool import Spool
from grb_check.execution.tasks import ModelOnDataset, Setup, Task
from grb_check.execution.transfers import Trying

_WAKE: Final = 0.2  # seconds between two looks at a future, so that Ctrl-C is noticed


class RemoteWarning(UserWarning):
    """A warning of a worker whose class is not one of Python's."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Facts that a worker found about a model and a dataset before any work.

    Attributes:
        fingerprint: of the dataset.
        definition: file and line of the factory; None if unknown.
    """

    fingerprint: str
    definition: tuple[str, int] | None


class Terminal(Protocol):
    """Shows how far a run is; see `session.progress`."""

    def poll(self, text: Callable[[], str]) -> None:
        """Show a text that may have changed; called several times a second."""

    def clear(self) -> None:
        """Remove what is shown."""


class Elsewhere:
    """Measures cases in workers.

    Args:
        calls: to the workers, which are closed with this object.
        setup: of the run.
        subject_of: the model on the dataset of a case.
        terminal: shows what is done while a result is waited for.
    """

    def __init__(
        self,
        calls: Calls,
        setup: Setup,
        subject_of: Callable[[Case], ModelOnDataset],
        terminal: Terminal | None = None,
    ) -> None:
        self._environments: dict[str, Mapping[str, str]] = {}  # by their text
        self.devices: dict[str, None] = {}
        self.calls = calls
        self._setup = setup
        self._subject_of = subject_of
        self._terminal = terminal
        self._planned: dict[tuple[Case, int], Future[Any]] = {}
        self._tasks: list[tuple[float, Future[Any]]] = []  # with their expected seconds
        self._members: dict[Case, tuple[Case, ...]] = {}  # of cases `worst`
        self._spool = Spool()
        self._warned: set[tuple[str, str]] = set()
        self._begun = time.monotonic()

    def check(self, cases: Iterable[Case], repeats: int) -> dict[Case, Checked]:
        """Check the model, the dataset and the pack of these cases.

        Args:
            cases: of the run.
            repeats: number of repeats of the run.

        Returns:
            What was found, by the first case of each model and dataset.

        Raises:
            DataError, ModelError, UsageError: the first that a worker raised.
            LostError: a worker was lost twice.
        """
        return {
            case: Checked(fingerprint=made["fingerprint"], definition=made["definition"])
            for case, made in self._for_each_model(check_task, cases, repeats).items()
        }

    def costs(self, cases: Iterable[Case], repeats: int) -> dict[Case, tuple[float, float]]:
        """Return `Evaluator.costs`, by the first case of each model and dataset.

        Raises:
            GrbCheckError: as `check`; a model cannot be trained.
        """
        made = self._for_each_model(costs_task, cases, repeats)
        return {case: each["costs"] for case, each in made.items()}

    def _for_each_model(
        self, function: Callable[[Task], dict[str, Any]], cases: Iterable[Case], repeats: int
    ) -> dict[Case, dict[str, Any]]:
        """Call a function in workers for each model and dataset, and return what it returned."""
        calls = {
            each[0]: self.calls.submit(function, self._task(each, 0, repeats))
            for each in by_model_and_dataset(cases)
        }
        found = {}
        with self._cleared():
            for case, future in calls.items():
                found[case] = self._wait(future)
                self._note(found[case])
        return found

    def plan(self, repeats: Mapping[Case, int], durations: Durations) -> None:
        """Give all cases to the workers.

        Args:
            repeats: number of repeats of each case.
            durations: expected.
        """
        self._begun = time.monotonic()
        for case in repeats:
            self._members[case] = self._members_of(case, repeats)
        measured = {case: count for case, count in repeats.items() if not self._members[case]}
        for part in plan(measured, durations, self.calls.workers.width):
            most = max(repeats[case] for case in part.cases)
            self._tasks.append((part.seconds, self._submit(part.cases, part.seed, most)))

    def results(self, case: Case, repeats: int) -> list[RepeatResult]:
        """Return the results of all repeats of a case, which are waited for.

        Raises:
            GrbCheckError: as `Evaluator.repeat`; `LostError` if workers were lost.
        """
        members = self._members.get(case, ())
        if members:
            from grb_check.evaluation.worst import worst_result  # imports numpy

            every = [self.results(each, repeats) for each in members]
            names = [each.attack for each in members]
            return [worst_result(names, each) for each in zip(*every, strict=True)]
        missing = [seed for seed in range(repeats) if (case, seed) not in self._planned]
        for seed in missing:
            self._submit((case,), seed, repeats)
        with self._cleared():
            return [self._result_of(case, seed) for seed in range(repeats)]

    def with_references(self, case: Case, results: Sequence[RepeatResult]) -> list[RepeatResult]:
        """Return results with the scores of all references."""
        calls = []
        for result in results:
            task = self._task((case,), result.measurement.seed, len(results))
            lean = replace(result, perturbation=b"").to_dict()
            calls.append(self.calls.submit(references_task, task, {case.id: lean}))
        found = []
        with self._cleared():
            for future, result in zip(calls, results, strict=True):
                made = self._wait(future)
                self._note(made)
                full = _result_in(made["cases"][case.id])
                found.append(replace(full, perturbation=result.perturbation))
        return found

    def tried(self, trying: Trying) -> dict[Case, Finding]:
        """Try perturbations of the run on a victim, which a worker may have to train again."""
        task = self._task(tuple(trying.own), trying.seed, trying.seed + 1)
        with self._cleared():
            made = self._wait(self.calls.submit(transfers_task, task, trying))
        self._note(made)
        findings = made["findings"]
        return {case: Finding(**findings[case.id]) for case in trying.own if case.id in findings}

    @property
    def environments(self) -> list[Mapping[str, str]]:
        """The environments of the workers, see `measured_with`, each once."""
        return [*self._environments.values()]

    def progress(self) -> str:
        """Say how far the run is, what is being done, and how long the rest may take."""
        done = sum(seconds for seconds, future in self._tasks if future.done())
        total = sum(seconds for seconds, _ in self._tasks)
        finished = sum(future.done() for _, future in self._tasks)
        text = "checking models and data"
        if self._tasks:
            text = f"{finished} of {count(len(self._tasks), 'task')} done"
        if done and done < total:
            left = (time.monotonic() - self._begun) * (total - done) / done
            text += f", about {duration(left)} left"
        return "; ".join([text, *self.calls.workers.doing()])

    def close(self) -> None:
        """End all work, and release the workers."""
        self.calls.close()
        self._spool.close()

    def _members_of(self, case: Case, repeats: Mapping[Case, int]) -> tuple[Case, ...]:
        """The cases that `worst` is put together from, if the run has them all; else nothing."""
        subject = self._subject_of(case)
        of_graphs = datasets.find(subject.dataset, subject.places).of_graphs
        members = members_of(case, self._setup.selected, of_graphs=of_graphs)
        if members == (case,):
            return ()
        there = all(repeats.get(each, 0) >= repeats[case] for each in members)
        return members if there else ()

    def _task(self, cases: tuple[Case, ...], seed: int, repeats: int) -> Task:
        subject = self._subject_of(cases[0])
        return Task(setup=self._setup, subject=subject, cases=cases, seed=seed, repeats=repeats)

    def _submit(self, cases: tuple[Case, ...], seed: int, repeats: int) -> Future[Any]:
        future = self.calls.submit(run_task, self._task(cases, seed, repeats))
        spooled: Future[Any] = Future()  # once the results are out of memory
        for case in cases:
            self._planned[case, seed] = spooled

        def keep(done: Future[Any]) -> None:
            try:
                made = done.result()
                for case in cases:
                    self._spool.put(case, seed, made["cases"].pop(case.id))
                spooled.set_result(made)
            except BaseException as error:  # CancelledError too
                spooled.set_exception(error)

        future.add_done_callback(keep)
        return spooled

    def _result_of(self, case: Case, seed: int) -> RepeatResult:
        self._note(self._wait(self._planned[case, seed]))
        return _result_in(self._spool.get(case, seed))

    def _wait(self, future: Future[Any]) -> Any:
        while not future.done():
            wait([future], timeout=_WAKE)
            if self._terminal is not None:
                self._terminal.poll(self.progress)
        return future.result()

    @contextmanager
    def _cleared(self) -> Iterator[None]:
        """Remove the progress when the waiting is over."""
        try:
            yield
        finally:
            if self._terminal is not None:
                self._terminal.clear()

    def _note(self, made: Mapping[str, Any]) -> None:
        """Take down where a task ran, and give its warnings, each once in a run."""
        self.devices[made["device"]] = None
        self._environments[repr(made["environment"])] = made["environment"]
        for category, text, file, line in made["warnings"]:
            if (category, text) not in self._warned:
                self._warned.add((category, text))
                warnings.warn_explicit(text, _category(category), file, line)


def joined(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return one environment for several; values that differ are all named."""
    names = {name: None for each in environments for name in each}
    return {
        name: " | ".join(sorted({each[name] for each in environments if name in each}))
        for name in names
    }


def _result_in(made: Mapping[str, Any]) -> RepeatResult:
    """The result of a case, or its error raised."""
    if "error" not in made:
        return RepeatResult.from_dict(made["result"])
    kind, text = made["error"]
    error = getattr(errors, kind, None) if kind else None
    if isinstance(error, type) and issubclass(error, GrbCheckError):
        raise error(text)
    raise RuntimeError(f"in a worker:\n{text}")


def _category(name: str) -> type[Warning]:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else RemoteWarning
