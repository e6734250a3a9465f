"""Tasks: plain data that names everything a process needs to measure some cases of one repeat.

A task is (model, dataset, repeat), for all cases or some of them. It trains the victim of that
repeat once and measures the cases, so that no victim has to be handed from one process to another.
Paths are absolute; packages and the user's model have to be importable where the task runs.

What tasks do, and what a process keeps from one of them to the next.

torch is imported when the first task runs, not with this module: a worker chooses its GPU before.

Measurements that an interrupted run has finished, kept in the store.

Loads no torch before something is measured.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from grb_check import datasets
from grb_check.attacks.registry import Pair
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.cases.outcomes import RepeatResult
from grb_check.datasets import Source
from grb_check.datasets.source import Places
from grb_check.errors import GrbCheckError, UsageError
from grb_check.settings.model_specs import ModelSpec
from grb_check.store.pack import PackPlace
from grb_check.store.place import StorePlace, open_store
from grb_check.store.store import Store
from grb_check.user_code.factories import quiet_imports
from grb_check.user_code.sources import definition, imported_digest

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.victims.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Settings that all tasks of a run have in common.

    Attributes:
        store: of perturbations and of finished measurements; None for none.
        device: as for `--grb-device`.
        attacks: users' attacks by the names that they were given.
        registered: name, import path and plugin of the attacks that plugins registered.
        selected: attacks of the run as the user selected them, for `worst`.
        resume: whether measurements of an interrupted run are taken from the store.
        sources: import path and `sources_digest` of all that is the user's.
        pack: that black-box perturbations are taken from; None to make them.
    """

    store: StorePlace | None
    device: str
    attacks: tuple[str, ...] = ()
    registered: tuple[tuple[str, str, str], ...] = ()
    selected: tuple[Pair, ...] = ()
    resume: bool = False
    sources: tuple[tuple[str, str], ...] = ()
    pack: PackPlace | None = None


@dataclass(frozen=True)
class ModelOnDataset:
    """A model on a dataset.

    Attributes:
        model: named by its import path; or one of this process, which cannot leave it.
        source: of the dataset. A worker finds it again.
    """

    model: ModelSpec | Subject
    source: Source

    def __reduce__(self) -> tuple[Callable[..., ModelOnDataset], tuple[Any, ...]]:
        return _found_again, (self.model, self.source.given, self.source.places)


def _found_again(model: ModelSpec, dataset: str, places: Places) -> ModelOnDataset:
    return ModelOnDataset(model, datasets.find(dataset, places))


Victim: TypeAlias = tuple[str, str, int]  # model, dataset, seed of the repeat


@dataclass(frozen=True, kw_only=True)
class Task:
    """Cases of one repeat of a model on a dataset.

    Attributes:
        step: what is done for its cases, one of the steps below.
        setup: of the run.
        on: the model on the dataset.
        cases: of that model and dataset.
        seed: of the repeat, from 0.
        repeats: number of repeats of the run, for the progress.
        given: for each case what the step needs besides.
    """

    step: Step
    setup: Setup
    on: ModelOnDataset
    cases: tuple[Case, ...]
    seed: int
    repeats: int
    given: Mapping[Case, Any] = field(default_factory=dict)

    @property
    def victim(self) -> Victim:
        """The victim that it needs; a process keeps those that it has trained."""
        return self.cases[0].model, self.cases[0].dataset, self.seed


# Yields for each case, or some, what was found, or the error that is this case's own. What it
# raises is an error of the whole task.
Step: TypeAlias = "Callable[[Process, Task], Iterator[tuple[Case, Any]]]"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a task found, and where it ran.

    Attributes:
        values: what its step has yielded.
        device: that was used.
        environment: everything else that figures depend on, see `measured_with`.
        warnings: class, text, file and line of each warning in a worker.
    """

    values: Mapping[Case, Any]
    device: str
    environment: Mapping[str, str]
    warnings: tuple[tuple[str, str, str, int], ...] = ()


class FinishedMeasurements:
    """Finished measurements, each under a key made from everything that it depends on.

    They are always kept, and used only if a run is resumed: what a model depends on is known as far
    as Python's imports tell (see `user_code.sources.sources_digest`), not if it reads other files.

    Args:
        evaluator: measures what is not finished.
        store: that keeps them.
        selected: attacks of the run as the user selected them, for `worst`.
        resume: whether they are used.
    """

    def __init__(
        self, evaluator: Evaluator, store: Store, selected: Sequence[Pair] = (), *, resume: bool
    ) -> None:
        self._evaluator = evaluator
        self._store = store
        self._selected = selected
        self._resume = resume
        self._sources: dict[str, str] = {}  # of the models of this run

    def repeat(
        self, subject: Subject, source: Source, case: Case, seed: int, *, repeats: int
    ) -> RepeatResult:
        """Measure one repeat of a case, see `Evaluator.repeat`, unless it is finished.

        A result from the store lacks its perturbation.
        """
        evaluator, selected = self._evaluator, self._selected
        facts = evaluator.facts(source, case, selected)
        key = None
        if subject.target and facts.attack:  # else a change cannot be detected
            key = self._store.key(
                kind="measurement",
                model=f"{subject.target} {sorted(subject.args.items())!r}",
                sources=self._sources_of(subject.target),
                packages=packages_digest(tuple(sys.path)),
                environment=repr(sorted(evaluator.environment.items())),
                case=replace(case, model="").id,
                facts=repr(facts),
                seed=seed,
            )
        saved = self._store.load_text(key) if key is not None and self._resume else None
        if saved is not None and key is not None:
            try:
                return msgspec.json.decode(saved, type=RepeatResult)
            except msgspec.MsgspecError as error:
                self._store.discard(key, f"does not hold a measurement: {error}")
        result = evaluator.repeat(subject, source, case, seed, repeats=repeats, selected=selected)
        if key is not None:
            lean = replace(result, perturbation=b"")
            self._store.save_text(key, msgspec.json.encode(lean).decode())
        return result

    def _sources_of(self, target: str) -> str:
        if target not in self._sources:
            self._sources[target] = imported_digest(target)
        return self._sources[target]


@cache
def packages_digest(_path: tuple[str, ...]) -> str:
    """Return a digest of the names and versions of all packages in these directories.

    Reading them takes a third of a second.
    """
    result = sorted(
        {f"{distribution.name} {distribution.version}" for distribution in distributions()}
    )
    return hashlib.sha256("\n".join(result).encode()).hexdigest()


class Process:
    """What a process keeps from one task of a run to the next: datasets, surrogates and victims.

    Nothing depends on that but time.

    Args:
        setup: of the run.
        progress: called with each step; the context that it returns ends with the step.

    Raises:
        UsageError: this process would not measure what the run began with.
    """

    def __init__(
        self, setup: Setup, progress: Callable[[str], AbstractContextManager[None]] | None = None
    ) -> None:
        _refuse_others(setup)
        with quiet_imports():
            from grb_check.evaluation.evaluator import Evaluator  # imports torch

        registry = AttackRegistry({name: (path, plugin) for name, path, plugin in setup.registered})
        if setup.attacks:
            registry.select(setup.attacks)
        store = open_store(setup.store)
        self.evaluator: Evaluator = Evaluator(
            store=store,
            device=setup.device,
            attacks=registry.user_attacks,
            progress=progress,
            pack=None if setup.pack is None else setup.pack.open(),
        )
        self.finished = FinishedMeasurements(
            self.evaluator, store, setup.selected, resume=setup.resume
        )

    def subject(self, on: ModelOnDataset) -> Subject:
        """Return the model, imported."""
        from grb_check.victims.subject import Subject, as_subject  # imports torch

        model = on.model
        if isinstance(model, Subject):
            return model
        return as_subject(model.target, model.args, model.label)

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """Everything that figures depend on besides versions, see `measured_with`."""
        return self.evaluator.environment

    def answer(self, task: Task) -> Answer:
        """Run a task."""
        return Answer(
            values=dict(task.step(self, task)),
            device=str(self.evaluator.device),
            environment=self.environment,
        )


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Facts about a model and a dataset before any work.

    Attributes:
        fingerprint: of the dataset.
        definition: file and line of the factory; None if unknown.
    """

    fingerprint: str
    definition: tuple[str, int] | None


def check(process: Process, task: Task) -> Iterator[tuple[Case, Checked]]:
    """Check dataset, untrained model and pack, so that errors come before any work.

    The task has all cases of its model and dataset; `Checked` comes with the first of them.

    Raises:
        DataError, ModelError, UsageError: the data or the factory is at fault.
    """
    subject, source = process.subject(task.on), task.on.source
    fingerprint = process.evaluator.check(subject, source)
    process.evaluator.check_pack(source, task.cases, task.setup.selected)
    location = definition(subject.source)
    result = None if location is None else (str(location[0]), location[1])
    yield task.cases[0], Checked(fingerprint=fingerprint, definition=result)


def measure(process: Process, task: Task) -> Iterator[tuple[Case, RepeatResult | Exception]]:
    """Measure each case, unless an interrupted run has."""
    subject = process.subject(task.on)
    for case in task.cases:
        one = partial(process.finished.repeat, subject, task.on.source, case, task.seed)
        yield case, _attempted(partial(one, repeats=task.repeats))


def references(process: Process, task: Task) -> Iterator[tuple[Case, RepeatResult | Exception]]:
    """Add the scores of all references to the results that are given."""
    for case, result in task.given.items():
        one = partial(process.evaluator.references, task.on.source, case, result)
        yield case, _attempted(partial(one, task.setup.selected))


def run_task(task: Task) -> Answer:
    """Run a task in a worker: what `Process.answer` returns, fit to be sent.

    Raises:
        MemoryError: there was not enough memory, on the device or in the process.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # of other packages; nobody can act
        warnings.simplefilter("ignore", FutureWarning)
        try:
            answer = _process(task.setup).answer(task)
        except Exception as error:
            raise _fit(error) from None
    texts = {
        (warning.category.__name__, str(warning.message), warning.filename, warning.lineno): None
        for warning in caught
    }
    return Answer(
        values={case: _sent(case, value) for case, value in answer.values.items()},
        device=answer.device,
        environment=answer.environment,
        warnings=tuple(texts),
    )


_process = lru_cache(maxsize=1)(Process)


def _refuse_others(setup: Setup) -> None:
    """Refuse to measure with other sources than those that the run began with.

    Raises:
        UsageError: names what has changed.
    """
    changed = [name for name, digest in setup.sources if imported_digest(name) != digest]
    if changed:
        raise UsageError(
            f"files of {', '.join(changed)} have changed since process {os.getpid()} imported "
            f"them; run it again (in a notebook, after a restart of the kernel)"
        )


def _attempted(function: Callable[[], RepeatResult]) -> RepeatResult | Exception:
    """The result of a case, or the error that is its own."""
    try:
        return function()
    except Exception as error:
        return error


def _sent(case: Case, value: Any) -> Any:
    """A value that can cross processes.

    Raises:
        MemoryError: it is an error that is not the case's, but that of the machine.
    """
    if not isinstance(value, Exception):
        return value
    fit = _fit(value)
    if isinstance(fit, MemoryError):
        raise MemoryError(f"{case.id}: {fit}")
    return fit


def _fit(error: Exception) -> Exception:
    """An error that can cross processes; those of users' classes may not."""
    if _lacks_memory(error):
        _process.cache_clear()
        return MemoryError(str(error))
    if isinstance(error, GrbCheckError):
        return error
    return RuntimeError(f"in a worker:\n{''.join(traceback.format_exception(error))}")


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, is a lack of memory."""
    while error is not None:
        cuda = type(error).__name__ == "OutOfMemoryError"  # of torch, whatever the device
        if cuda or isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            return True
        error = error.__cause__
    return False
