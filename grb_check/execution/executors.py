"""Workers that run tasks: what `--grb-executor` names, behind one small interface.

A named factory makes any `concurrent.futures.Executor`; `dask` is in `dask_cluster`. Workers are
compared with this process at the start, and one that joins later before its first task.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from grb_check.errors import GrbCheckError, LostError, UsageError, count, one_line
from grb_check.execution import dask_cluster
from grb_check.execution.cores import cores
from grb_check.execution.worker_environment import (
    Needs,
    compare,
    environment,
    environment_of_worker,
    run_checked,
)
from grb_check.user_code.factories import import_target
from grb_check.user_code.tracebacks import short_traceback

OPTION: Final = "--grb-executor"
ALLOWED: Final = "dask, dask:tcp://HOST:PORT or pkg.module:factory"
_LOST: Final = {
    ("distributed", "KilledWorker"),
    ("distributed", "NoValidWorkerError"),  # no worker for `no-workers-timeout`
}


class Workers(Protocol):
    """Workers that execute the tasks of a run.

    Attributes:
        name: for pytest's header.
        width: number of tasks that may be in flight at once.
    """

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int: ...

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Return the future of a call of a module's function in a worker."""
        ...

    def doing(self) -> list[str]:
        """Return what busy workers say that they do; nothing if that is not known."""
        ...

    def restart(self) -> None:
        """Replace a broken executor by a new one.

        Raises:
            LostError, UsageError: see `open_workers`.
        """
        ...

    def close(self) -> None:
        """Cancel what is queued, and end the workers that were started here."""
        ...


class Started(Protocol):
    """An executor that runs, with what is known of its kind."""

    executor: Executor

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages of its own of which workers need the version of this process."""
        ...

    def call_each(self, function: Callable[..., Any], *args: Any) -> Mapping[str, Any]:
        """Return what a function returns on each worker that can be addressed, by its name."""
        ...

    def close(self) -> None: ...


def open_workers(
    text: str,
    *,
    models: Sequence[str] = (),
    folders: Sequence[str] = (),
    jobs: int | None = None,
) -> Workers:
    """Start, or connect to, the workers that `--grb-executor` names, and compare their versions.

    Args:
        text: `dask`, `dask:tcp://HOST:PORT` or `pkg.module:factory`.
        models: import paths of the users' models, which each worker must be able to import.
        folders: to search for users' modules, before those of the worker.
        jobs: number of processes of a local Dask cluster; default: one for each core.

    Raises:
        UsageError: the text has another form; nothing can be started or reached; a worker has
            other versions, or other sources of a model.
        LostError: a worker of a local Dask cluster died while it started.
    """
    label = f"{OPTION}={text.strip()}"
    needs = Needs(models=tuple(models), folders=tuple(folders))
    return _Checked(label, _start(text.strip(), jobs), needs)


def worker_lost(error: BaseException) -> bool:
    """Return whether a future failed because its worker was lost, and not by what it ran."""
    kinds = {(each.__module__.partition(".")[0], each.__name__) for each in type(error).__mro__}
    return breaks_all(error) or isinstance(error, LostError) or bool(kinds & _LOST)


def breaks_all(error: BaseException) -> bool:
    """Return whether the executor is broken as a whole, and needs `Workers.restart`.

    Dask cancels all tasks when the connection to its scheduler is lost.
    """
    return isinstance(error, (BrokenExecutor, CancelledError))


def _start(text: str, jobs: int | None) -> Callable[[], Started]:
    engine, colon, rest = text.partition(":")
    if engine == "dask" and not colon:
        return partial(dask_cluster.start_local, jobs)
    if jobs is not None:
        raise UsageError(
            f"{OPTION}={text} cannot be combined with --grb-jobs: its workers are its own; leave "
            f"--grb-jobs away, or give {OPTION}=dask for {count(jobs, 'process', 'processes')} "
            f"of this machine"
        )
    if engine == "dask":
        return partial(dask_cluster.connect, rest)
    if not colon:
        raise UsageError(f"{OPTION}={text!r}: name one of {ALLOWED}")
    return partial(_call_factory, text)


def _call_factory(target: str) -> Started:
    wanted = "function or class in it that makes a concurrent.futures.Executor"
    factory = import_target(target, "executor", wanted)
    label = f"{OPTION}={target}"
    if not callable(factory):
        raise UsageError(
            f"{label} names a {type(factory).__name__}, which cannot be called: name a function "
            f"without arguments that returns a concurrent.futures.Executor"
        )
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{label} raised when called without arguments:\n{short_traceback(error)}"
        ) from error
    if dask_cluster.is_client(made):
        return dask_cluster.adopt(made)
    if not (callable(getattr(made, "submit", None)) and callable(getattr(made, "shutdown", None))):
        raise UsageError(
            f"{label} returned a {type(made).__name__}, which is no executor: return a "
            f"concurrent.futures.Executor (methods submit and shutdown) or a Dask Client"
        )
    return _Made(target, made)


class _Made:
    """An executor that a user's factory made."""

    packages: tuple[str, ...] = ()

    def __init__(self, target: str, executor: Executor) -> None:
        self.executor = executor
        self.name = f"{target} ({type(executor).__name__})"
        names = ("max_workers", "num_workers", "_max_workers")  # the last: the standard library's
        told = (getattr(executor, name, None) for name in names)
        workers = next((each for each in told if isinstance(each, int)), cores())
        # A pool that breaks takes all tasks in flight with it: one waits, so that none idles.
        self.width = workers + 1

    def call_each(self, function: Callable[..., Any], *args: Any) -> Mapping[str, Any]:
        future = self.executor.submit(function, *args)
        if not isinstance(future, Future):
            raise UsageError(
                f"{OPTION}={self.name}: submit returned a {type(future).__name__}; it must return "
                f"a concurrent.futures.Future"
            )
        return {"of the executor": future.result()}

    def close(self) -> None:
        # Kept, because `shutdown` forgets them; Python 3.14 has `kill_workers` for it.
        processes = dict(getattr(self.executor, "_processes", None) or {})
        parameters = inspect.signature(self.executor.shutdown).parameters
        wrapper = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        taken = ("wait", "cancel_futures") if wrapper else tuple(parameters)
        # Standard library; loky.
        wanted = {"wait": False, "cancel_futures": True, "kill_workers": True}
        self.executor.shutdown(**{name: wanted[name] for name in wanted if name in taken})
        for process in processes.values():
            process.terminate()


class _Checked:
    """Workers whose versions and sources are those of this process."""

    def __init__(self, label: str, start: Callable[[], Started], needs: Needs) -> None:
        self._label = label
        self._start = start
        self._started = start()
        self._needs = replace(needs, packages=self._started.packages)
        self._changing = threading.Lock()  # close may come from another thread than restart
        self._lost = ""  # the reason why no more calls are taken
        try:
            self._here = environment(self._needs)
            self._check()
        except BaseException:
            self._started.close()
            raise

    @property
    def name(self) -> str:
        return self._started.name

    @property
    def width(self) -> int:
        return max(2, self._started.width)

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        if self._lost:
            raise LostError(self._lost)
        checked = (self._label, tuple(self._here.items()), self._needs)
        return self._started.executor.submit(run_checked, *checked, function, *args)

    def doing(self) -> list[str]:
        return []

    def restart(self) -> None:
        with self._changing:
            self._started.close()
            if self._lost:  # closed, or not to be started again
                return
            try:
                self._started = self._start()
            except GrbCheckError as error:
                self._lost = one_line(error)
                raise

    def close(self) -> None:
        with self._changing:
            self._lost = "the workers are closed"
            self._started.close()

    def _check(self) -> None:
        try:
            found = self._started.call_each(environment_of_worker, self._needs)
        except UsageError:
            raise
        except Exception as error:
            if worker_lost(error):  # other workers are compared before their first task
                return
            raise UsageError(
                f"{self._label}: workers cannot run grb_check "
                f"({one_line(error.__cause__ or error)}); install the same packages as here where "
                f"workers run, and where Dask's scheduler runs"
            ) from error
        compare(self._label, self._here, found)
