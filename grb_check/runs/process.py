"""The state of a process that measures, and running a task in it.

torch is imported when the first task runs, not with this module: a worker chooses its GPU before.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
import traceback
import warnings
from contextlib import suppress
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, Final

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.errors import DataError, GrbCheckError, UsageError
from grb_check.files.versions import versions
from grb_check.runs.resume import FinishedMeasurements
from grb_check.store.place import open_store
from grb_check.user_code.factories import quiet_imports
from grb_check.user_code.sources import imported_digest

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.evaluation.repeats import Progress
    from grb_check.victims.subject import Subject
from grb_check.runs.inputs import opened_pack
from grb_check.runs.tasks import Answer, ModelOnDataset, Task
from grb_check.settings.settings import Execution, RunSettings

_STATE: Final[dict[str, Process]] = {}  # of a worker, by its settings; at most one
# Settings of torch and the global random states belong to the process.
_ONE_AT_A_TIME: Final = threading.Lock()


class UnexpectedError(RuntimeError):
    """An error in a worker that is no `GrbCheckError`, with its traceback as text."""


class Process:
    """The state of a process between the tasks of a run: datasets, surrogates and victims.

    Nothing depends on that but time.

    Args:
        settings: of the run.
        progress: see `measure_repeat`.
        attacks: of this process; None to look those up that the settings name.

    Raises:
        UsageError: this process would not measure what the run began with.
    """

    def __init__(
        self,
        settings: RunSettings,
        progress: Progress | None = None,
        attacks: AttackRegistry | None = None,
    ) -> None:
        _refuse_others(settings)
        # Large tensors in huge pages, where Linux has them: page faults took nearly half of a
        # training on 1 million edges. torch looks once, at its first tensor.
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
        with quiet_imports():
            from grb_check.evaluation.evaluator import Evaluator  # imports torch

        execution = settings.execution
        registry = _named_attacks(execution) if attacks is None else attacks
        place = execution.store
        sends = bool(execution.executor) and place is not None and not place.read_only
        self._made: dict[str, bytes] | None = {} if sends else None
        store = open_store(execution.store, self._made)
        self.evaluator: Evaluator = Evaluator(
            store=store,
            device=settings.device,
            attacks=registry.user_attacks,
            progress=progress,
            pack=opened_pack(settings),
        )
        self.finished = FinishedMeasurements(
            self.evaluator, store, resume=execution.resume, files=execution.files
        )

    def subject(self, on: ModelOnDataset) -> Subject:
        """Return the model, imported."""
        from grb_check.victims.subject import Subject, as_subject  # imports torch

        model = on.model
        if isinstance(model, Subject):
            return model
        return as_subject(model.target, model.arguments, model.label)

    def answer(self, task: Task) -> Answer:
        """Run a task.

        Raises:
            DataError: the dataset is another one here.
        """
        self._require_data(task)
        made = {} if self._made is None else self._made
        made.clear()
        values = dict(task.step(self, task))
        for name in task.settings.execution.digests:  # of what is imported by now
            imported_digest(name)
        return Answer(
            values=values,
            device=str(self.evaluator.device),
            environment=self.evaluator.environment,
            stored=dict(made),
        )

    def _require_data(self, task: Task) -> None:
        source = task.on.source
        if task.fingerprint and self.evaluator.fingerprint(source) != task.fingerprint:
            raise DataError(
                f"dataset {source.name}: process {os.getpid()} of {platform.node()} has other data "
                f"than those that were checked; put the same files there"
            )


def _named_attacks(execution: Execution) -> AttackRegistry:
    """The attacks that settings name."""
    result = AttackRegistry(
        {name: (path, plugin) for name, path, plugin in execution.registered_attacks}
    )
    if execution.user_attacks:
        result.select(execution.user_attacks)
    return result


def run_task(task: Task, progress: Progress | None = None) -> Answer:
    """Run a task in a worker: what `Process.answer` returns, fit to be sent.

    A worker with several threads runs its tasks one after another.

    Args:
        task: to run.
        progress: see `Process`; that of the first task of a run is kept.

    Raises:
        MemoryError: there was not enough memory, on the device or in the process.
    """
    if parent_process() is not None:
        with suppress(ValueError):  # in a thread, which gets no signals
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that was started
    with _ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # of other packages; nobody can act
        warnings.simplefilter("ignore", FutureWarning)
        try:
            answer = _process(task.settings, progress).answer(task)
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
        stored=answer.stored,
    )


def _process(settings: RunSettings, progress: Progress | None) -> Process:
    """The state of this worker for the run with these settings; that of another run is dropped."""
    key = repr(settings)
    if key not in _STATE:
        _STATE.clear()
        _STATE[key] = Process(settings, progress)
    return _STATE[key]


def _refuse_others(settings: RunSettings) -> None:
    """Refuse to measure with other versions or sources than those that the run began with.

    Raises:
        UsageError: names what differs.
    """
    execution, here = settings.execution, versions() if settings.execution.versions else {}
    others = [
        f"{name} is {here.get(name, 'missing')} there and {version} here"
        for name, version in execution.versions.items()
        if here.get(name) != version
    ]
    changed = [
        name for name, digest in execution.digests.items() if imported_digest(name) != digest
    ]
    if changed and not execution.versions:  # a process of this machine
        raise UsageError(
            f"files of {', '.join(changed)} have changed since process {os.getpid()} imported "
            f"them; run it again (in a notebook, after a restart of the kernel)"
        )
    others += [f"files of {name} differ" for name in changed]
    if others:
        raise UsageError(
            f"process {os.getpid()} of {platform.node()} would not measure what the run began "
            f"with: {'; '.join(others)}; install the same there, and restart what has imported "
            f"older files"
        )


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
        _STATE.clear()
        return MemoryError(str(error))
    if isinstance(error, GrbCheckError):
        return error
    return UnexpectedError(f"in a worker:\n{''.join(traceback.format_exception(error))}")


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, is a lack of memory."""
    while error is not None:
        cuda = type(error).__name__ == "OutOfMemoryError"  # of torch, whatever the device
        if cuda or isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            return True
        error = error.__cause__
    return False
