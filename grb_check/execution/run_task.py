"""Run tasks, in whatever process this is: the functions here are what is sent to workers.

torch is imported when the first task runs, not with this module: a worker chooses its GPU before.
"""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from grb_check import datasets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Finding
from grb_check.cases.repeat_results import RepeatResult
from grb_check.errors import GrbCheckError, UsageError
from grb_check.execution.finished import Finished
from grb_check.execution.tasks import ModelOnDataset, Setup, Task
from grb_check.execution.transfers import Trying
from grb_check.store.place import open_store
from grb_check.user_code.sources import definition, imported_digest

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import Evaluator

# What a worker is doing, for people. Who runs tasks may set it.
TELL: Final[ContextVar[Callable[[str], None]]] = ContextVar("TELL", default=lambda _: None)

# Settings of torch and the global random states belong to the process.
_ONE_AT_A_TIME: Final = threading.RLock()


def check_task(task: Task) -> dict[str, Any]:
    """Check dataset, untrained model and pack, so that errors come before any work.

    Args:
        task: with all cases of its model and dataset.

    Returns:
        `fingerprint` of the dataset; `definition`: the file and line of the factory, or None; and
        `device`, `environment` and `warnings`.

    Raises:
        DataError, ModelError, UsageError: the data or the factory is at fault.
    """
    with _here(task.setup) as (process, caught):
        model, source = process.model(task.subject), _source(task.subject)
        fingerprint = process.evaluator.check(model, source)
        process.evaluator.check_pack(source, task.cases, task.repeats, task.setup.selected)
        place = definition(model.source)
        found = None if place is None else (str(place[0]), place[1])
        return {"fingerprint": fingerprint, "definition": found, **process.about(caught)}


def costs_task(task: Task) -> dict[str, Any]:
    """Train the model of a task once.

    Returns:
        `costs`, see `Evaluator.costs`; and `device`, `environment` and `warnings`.

    Raises:
        DataError, ModelError, UsageError: as `check_task`, and the model cannot be trained.
    """
    with _here(task.setup) as (process, caught):
        costs = process.evaluator.costs(process.model(task.subject), _source(task.subject))
        return {"costs": costs, **process.about(caught)}


def run_task(task: Task) -> dict[str, Any]:
    """Measure the cases of a task.

    Returns:
        `cases`: for each id `{"result": ...}`, see `RepeatResult.to_dict`, or
        `{"error": [class, text]}`; and `device`, `environment` and `warnings`.

    Raises:
        MemoryError: there was not enough memory, on the device or in the process.
    """
    with _here(task.setup) as (process, caught):
        found = {case.id: _reported(process.measure, task, case) for case in task.cases}
        return {"cases": found, **process.about(caught)}


def references_task(task: Task, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Add the scores of all references to the results of a task.

    Args:
        task: whose results these are.
        results: by case id, see `RepeatResult.to_dict`.

    Returns:
        As `run_task`.
    """
    with _here(task.setup) as (process, caught):
        found = {}
        for case in task.cases:
            result = RepeatResult.from_dict(results[case.id])
            found[case.id] = _reported(process.with_references, task, case, result)
        return {"cases": found, **process.about(caught)}


def transfers_task(task: Task, trying: Trying) -> dict[str, Any]:
    """Try perturbations of the run on the victim of a task.

    Returns:
        `findings`: for some of the cases, by id, the fields of a `Finding`; and `device`,
        `environment` and `warnings`.

    Raises:
        GrbCheckError: as `Evaluator.stronger_transfers`.
    """
    with _here(task.setup) as (process, caught):
        found = process.tried(task, trying)
        findings = {case.id: asdict(each) for case, each in found.items()}
        return {"findings": findings, **process.about(caught)}


class _Process:
    """Everything that a process keeps from one task of a run to the next."""

    def __init__(self, setup: Setup) -> None:
        from grb_check.evaluation.evaluator import Evaluator  # imports torch

        _check_sources(setup)

        registry = AttackRegistry({name: (path, plugin) for name, path, plugin in setup.registered})
        if setup.attacks:
            registry.select(setup.attacks)
        pack = None if setup.pack is None else setup.pack.open()
        store = open_store(setup.store)
        self._finished = Finished(store, resume=setup.resume)
        self.evaluator: Evaluator = Evaluator(
            store=store,
            device=setup.device,
            attacks=registry.own,
            progress=_telling,
            pack=pack,
        )

    def model(self, subject: ModelOnDataset) -> Any:
        """Return the model, imported."""
        from grb_check.victims.subject import as_subject  # imports torch

        return as_subject(subject.model.target, subject.model.args, subject.name)

    def measure(self, task: Task, case: Case) -> RepeatResult:
        """Measure a case of a task, unless an interrupted run has."""
        return self._finished.repeat(
            self.evaluator,
            self.model(task.subject),
            _source(task.subject),
            case,
            task.seed,
            repeats=task.repeats,
            selected=task.setup.selected,
        )

    def with_references(self, task: Task, case: Case, result: RepeatResult) -> RepeatResult:
        """Add the scores of all references."""
        source = _source(task.subject)
        return self.evaluator.references(source, case, result, task.setup.selected)

    def tried(self, task: Task, trying: Trying) -> Mapping[Case, Finding]:
        """Try perturbations of the run on the victim of a task."""
        return self.evaluator.stronger_transfers(
            self.model(task.subject),
            _source(task.subject),
            trying.own,
            trying.seed,
            trying.made,
            task.setup.selected,
        )

    def about(self, caught: list[warnings.WarningMessage]) -> dict[str, Any]:
        """Return where a task ran, and the warnings that it gave, each once."""
        texts = {
            (each.category.__name__, str(each.message), each.filename, each.lineno): None
            for each in caught
        }
        return {
            "device": str(self.evaluator.device),
            "environment": self.evaluator.environment,
            "warnings": list(texts),
        }


def _check_sources(setup: Setup) -> None:
    """Check that this process measures what the run was started for.

    Raises:
        UsageError: files have changed since, or this process has imported older ones.
    """
    for target, digest in setup.sources:
        if imported_digest(target) != digest:
            raise UsageError(
                f"{target}: its files, or files that it imports, are not those that the run was "
                f"started with: they have changed since, or a worker has imported older ones; "
                f"restart the workers, and run again"
            )


_process = lru_cache(maxsize=1)(_Process)


@contextmanager
def _here(setup: Setup) -> Iterator[tuple[_Process, list[warnings.WarningMessage]]]:
    """Give what this process keeps, and collect the warnings of what runs inside."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # of other packages; nobody can act
        warnings.simplefilter("ignore", FutureWarning)
        sys.path[:0] = [each for each in setup.folders if each not in sys.path]
        yield _process(setup), caught


def _source(subject: ModelOnDataset) -> datasets.Source:
    return datasets.find(subject.dataset, subject.places)


@contextmanager
def _telling(text: str) -> Iterator[None]:
    TELL.get()(text)
    yield


def _reported(
    measure: Callable[..., RepeatResult], task: Task, case: Case, *more: RepeatResult
) -> dict[str, Any]:
    """The result of a case, or the error that is its own.

    Raises:
        MemoryError: the error is not the case's, but that of the machine.
    """
    try:
        return {"result": measure(task, case, *more).to_dict()}
    except Exception as error:
        if _lacks_memory(error):
            _process.cache_clear()
            raise MemoryError(f"{case.id}: {error}") from None
        if isinstance(error, GrbCheckError):
            return {"error": [type(error).__name__, str(error)]}
        return {"error": ["", traceback.format_exc()]}


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, is a lack of memory."""
    while error is not None:
        cuda = type(error).__name__ == "OutOfMemoryError"  # of torch, whatever the device
        if cuda or isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            return True
        error = error.__cause__
    return False
