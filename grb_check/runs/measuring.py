"""Measures the cases of a run: submits its tasks and waits for their answers. Loads no torch."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Protocol

from grb_check.cases.case import Case
from grb_check.cases.outcomes import IN_DOUBT
from grb_check.cases.repeat_results import ENOUGH, CaseResult, RepeatResult, outcome_of
from grb_check.cases.selection import by_model_and_dataset
from grb_check.cases.suites import members_of
from grb_check.errors import DataError, GrbCheckError
from grb_check.runs import steps
from grb_check.runs.remaining import Remaining
from grb_check.runs.schedule import timed_parts
from grb_check.runs.steps import Checked
from grb_check.runs.tasks import Answer, ModelOnDataset, Step, Task
from grb_check.runs.workers.calls import Calls, Pending
from grb_check.settings.settings import RunSettings
from grb_check.store.place import open_store
from grb_check.store.store import Store

_WAKE: Final = 0.2  # seconds between two looks at a future, so that Ctrl-C is noticed
UNTRAINED: Final = 1_000_000  # a repeat beyond all of a run


class RemoteWarning(UserWarning):
    """A warning of a worker whose class is not one of Python's."""


class Terminal(Protocol):
    """Shows how far a run is; see `session.progress`."""

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
        settings: of the run.
        model_of: the model on the dataset of a case.
        terminal: shows what is done while a result is waited for.
        warn: is given the class, text, file and line of each warning of a worker, each once.

    Attributes:
        settings: of the run; attacks may be added to them before the tasks are submitted.
        devices: on which tasks have run.
        environments: that tasks have run in, see `measured_with`, each once.
        refused: the errors of models that `check` went on without, by model and dataset of a case.
    """

    def __init__(
        self,
        calls: Calls,
        settings: RunSettings,
        model_of: Callable[[Case], ModelOnDataset],
        terminal: Terminal | None = None,
        warn: Callable[[str, str, str, int], None] | None = None,
    ) -> None:
        self.calls = calls
        self.devices: dict[str, None] = {}
        self.environments: list[Mapping[str, str]] = []
        self.refused: dict[tuple[str, str], GrbCheckError] = {}
        self.settings = settings
        self._model_of = model_of
        self._terminal = terminal
        self._warn = warn or _give
        self._pending: dict[tuple[Case, int], Pending] = {}
        self._warned: set[tuple[str, str]] = set()
        self._fingerprints: dict[str, str] = {}  # of the datasets that were checked
        self._remaining = Remaining({})

    def check(self, cases: Iterable[Case], repeats: int) -> dict[Case, Checked]:
        """Check the model, the dataset and the pack of these cases.

        A model with an error does not end the run of the others: its cases raise the error later.

        Args:
            cases: of the run, `worst` among them.
            repeats: number of repeats of the run.

        Returns:
            What was found, by the first case of each model and dataset.

        Raises:
            DataError, ModelError, UsageError, LostError: the first error, if each model has one.
        """
        attacks = dict.fromkeys(member for case in cases for member in self._members(case))
        groups = [tuple(group) for group in by_model_and_dataset(attacks)]
        calls = [self.calls.submit(self._task(steps.check, group, 0, repeats)) for group in groups]
        result: dict[Case, Checked] = {}
        refused: dict[tuple[str, str], GrbCheckError] = {}
        with self._cleared():
            for (first, *_), call in zip(groups, calls, strict=True):
                try:
                    found: Mapping[Case, Checked] = self._wait(call).values
                    for case, facts in found.items():
                        self._note_data(case.dataset, facts.fingerprint)
                    result |= found
                except GrbCheckError as error:
                    refused[first.model, first.dataset] = error
        if {model for model, _ in refused} == {case.model for case in attacks} and refused:
            raise next(iter(refused.values()))
        self.refused |= refused
        return result

    def _note_data(self, dataset: str, fingerprint: str) -> None:
        """Take down the data that models were checked on.

        Raises:
            DataError: two workers have different ones.
        """
        if self._fingerprints.setdefault(dataset, fingerprint) != fingerprint:
            raise DataError(
                f"dataset {dataset}: workers have different data; put the same files on each"
            )

    def ask(self, step: Step, case: Case, given: Any = None) -> Any:
        """Return what another step yields for a case.

        Args:
            step: to run.
            case: of the model and dataset.
            given: what the step needs besides.
        """
        task = replace(self._task(step, (case,), 0, 1), given={case: given})
        with self._cleared():
            return self._wait(self.calls.submit(task)).values[case]

    def ask_all(self, step: Step, case: Case, given: Any = None) -> list[Any]:
        """Return what another step yields for a case in each worker; see `ask`."""
        # Repeats that no worker has trained, so that none of the tasks waits for its victim's.
        seeds = range(UNTRAINED, UNTRAINED + max(1, self.calls.width))
        tasks = [replace(self._task(step, (case,), seed, 1), given={case: given}) for seed in seeds]
        calls = [self.calls.submit(task) for task in tasks]
        with self._cleared():
            return [self._wait(call).values[case] for call in calls]

    def submit_all(self, repeats: Mapping[Case, int], seconds: Mapping[str, float]) -> None:
        """Give all cases to the workers, but those that they have.

        Args:
            repeats: number of repeats of each case.
            seconds: that one repeat of a case may take, by id.
        """
        measured: dict[Case, int] = {}
        for case, count in repeats.items():
            if (case.model, case.dataset) in self.refused:
                continue
            for member in self._members(case):
                measured[member] = max(count, measured.get(member, 0))
        self._remaining = Remaining(measured)
        if not self.calls.width:
            return
        for part in timed_parts(measured, seconds, self.calls.width):
            most = max(measured[case] for case in part.cases)
            cases = tuple(case for case in part.cases if (case, part.seed) not in self._pending)
            if cases:
                self._submit(cases, part.seed, most)

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
        members, further = self._members(case, on), range(repeats, ENOUGH)

        def of(
            by_member: list[list[RepeatResult]],
            more: Callable[[], CaseResult] | None,
            *,
            beside_all: bool = False,
        ) -> CaseResult:
            strongest = tuple(_strongest(case, members, by_member))
            outcome = outcome_of(case, name, strongest)
            return CaseResult(
                outcome=outcome, results=strongest, further=more, beside_all=beside_all
            )

        def beside(known: list[list[RepeatResult]], stage: int) -> CaseResult:
            full = [
                self._with_references(member, of_member, stage, on)
                for member, of_member in zip(members, known, strict=True)
            ]
            shared = [_beside_shared(of_member) for of_member in full]
            if stage + 1 < len(IN_DOUBT):
                return of(shared, lambda: beside(full, stage + 1))

            def confirmed() -> CaseResult:
                more = [
                    self._with_references(member, self._results(member, further, on), stage, on)
                    for member in members
                ]
                both = [
                    _beside_shared([*some, *rest]) for some, rest in zip(full, more, strict=True)
                ]
                return of(both, None, beside_all=True)

            return of(shared, confirmed if repeats < ENOUGH else None, beside_all=True)

        results = [self._results(member, range(repeats), on) for member in members]
        return of(results, lambda: beside(results, 0))

    def _results(self, case: Case, seeds: range, on: ModelOnDataset | None) -> list[RepeatResult]:
        """The results of these repeats of a case, which is not `worst`."""
        if on is None and (error := self.refused.get((case.model, case.dataset))) is not None:
            raise error
        if on is not None:
            tasks = [self._task(steps.measure, (case,), seed, seeds.stop, on) for seed in seeds]
            calls: list[Pending] = [self.calls.submit(task) for task in tasks]
        else:
            for seed in seeds:
                if (case, seed) not in self._pending:
                    self._submit((case,), seed, seeds.stop)
            calls = [self._pending[case, seed] for seed in seeds]
        with self._cleared():
            return [_raised(self._wait(call).values[case]) for call in calls]

    def _with_references(
        self, case: Case, results: Sequence[RepeatResult], stage: int, on: ModelOnDataset | None
    ) -> list[RepeatResult]:
        """Results with the scores of the references of a stage, if one of them has learned.

        Args:
            case: of the results.
            results: of its repeats.
            stage: of `IN_DOUBT`.
            on: another model than the one that the case names.
        """
        calls = []
        for result in results:
            task = self._task(steps.references, (case,), result.measurement.seed, len(results), on)
            lean = replace(result, perturbation=b"")
            calls.append(self.calls.submit(replace(task, given={case: (lean, IN_DOUBT[stage])})))
        with self._cleared():
            full = [_raised(self._wait(call).values[case]) for call in calls]
        return [
            replace(one, perturbation=result.perturbation)
            for one, result in zip(full, results, strict=True)
        ]

    @property
    def left(self) -> str:
        """The number of repeats measured, and the time that the rest may take.

        Empty before anything was measured. What workers have measured counts before it is asked
        for.
        """
        for pending in {id(row): row for row in self._pending.values()}.values():
            if self.calls.width and pending.done():
                with suppress(Exception):  # raised again where the result is asked for
                    self._remaining.book(pending.result().values)
        return self._remaining.text(self.calls.width)

    def progress(self) -> str:
        """The text of the progress, before anything was measured, too."""
        begun = "no task is done yet" if self._pending else "checking models and data"
        return "; ".join(filter(None, (self.left or begun, self.calls.steps)))

    @cached_property
    def _store(self) -> Store:
        """The store of this machine, which workers may not share."""
        return open_store(self.settings.execution.store)

    def close(self) -> None:
        """End all work, and release the workers; what they have stored is kept."""
        for pending in {id(row): row for row in self._pending.values()}.values():
            if self.calls.width and pending.done():
                with suppress(Exception):
                    self._keep(pending.result())
        self.calls.close()

    def _keep(self, answer: Answer) -> None:
        for key, content in answer.stored.items():
            self._store.add(key, content)

    def _members(self, case: Case, on: ModelOnDataset | None = None) -> tuple[Case, ...]:
        """The cases that are measured for a case: those that `worst` is made of, else itself."""
        of_graphs = (on or self._model_of(case)).source.of_graphs
        return members_of(case, self.settings.selected, of_graphs=of_graphs)

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
            settings=self.settings,
            on=on or self._model_of(cases[0]),
            cases=cases,
            seed=seed,
            repeats=repeats,
            fingerprint=self._fingerprints.get(cases[0].dataset, ""),
        )

    def _submit(self, cases: tuple[Case, ...], seed: int, repeats: int) -> Pending:
        pending = self.calls.submit(self._task(steps.measure, cases, seed, repeats))
        self._pending |= {(case, seed): pending for case in cases}
        return pending

    def _wait(self, pending: Pending) -> Answer:
        """Return an answer; take down where the task ran, and give its warnings, each once."""
        while isinstance(pending, Future) and not pending.done():
            wait([pending], timeout=_WAKE)
            if self._terminal is not None:
                self._terminal.poll(self.progress)
        answer = pending.result()
        for (case, seed), of_case in self._pending.items():
            if of_case is pending:
                self._remaining.end(case, seed)
        self._remaining.book(answer.values)
        if self._terminal is not None and not self.calls.width:
            self._terminal.log(self.progress)
        self._keep(answer)
        self.devices[answer.device] = None
        if answer.environment not in self.environments:
            self.environments.append(answer.environment)
        for category, text, file, line in answer.warnings:
            if (category, text) not in self._warned:
                self._warned.add((category, text))
                self._warn(category, text, file, line)
        return answer

    @contextmanager
    def _cleared(self) -> Iterator[None]:
        """Remove the progress when the waiting is over."""
        try:
            yield
        finally:
            if self._terminal is not None and self.calls.width:
                self._terminal.clear()


def _beside_shared(results: Sequence[RepeatResult]) -> list[RepeatResult]:
    """The results beside the references that all of them have."""
    shared = set.intersection(*({*one.measurement.references} for one in results))
    return [_beside(one, shared) for one in results]


def _beside(result: RepeatResult, names: Collection[str]) -> RepeatResult:
    """The result beside the references of these names alone."""
    measurement = result.measurement
    references = {name: row for name, row in measurement.references.items() if name in names}
    return replace(result, measurement=replace(measurement, references=references))


def _strongest(
    case: Case, members: Sequence[Case], results: Sequence[Sequence[RepeatResult]]
) -> Iterable[RepeatResult]:
    """The results of each repeat of a case, from those of all repeats of each member."""
    if tuple(members) == (case,):
        return results[0]
    from grb_check.evaluation.worst import worst_result  # imports numpy

    names = [member.attack for member in members]
    return [worst_result(names, of_repeat) for of_repeat in zip(*results, strict=True)]


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


def _give(category: str, text: str, file: str, line: int) -> None:
    warnings.warn_explicit(text, _category(category), file, line)


def _category(name: str) -> type[Warning]:
    result = getattr(builtins, name, None)
    return result if isinstance(result, type) and issubclass(result, Warning) else RemoteWarning
