"""Workers that run tasks: executors of `concurrent.futures`, with what is known of their kind.

`--grb-jobs` makes processes of this machine, `--grb-executor` what it names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from dataclasses import dataclass
from functools import partial
from typing import Final

from grb_check.errors import LostError, UsageError
from grb_check.execution.resources import cores
from grb_check.user_code.calls import short_traceback
from grb_check.user_code.factories import import_target

OPTION: Final = "--grb-executor"
_BROKEN: Final = {("loky", "ShutdownExecutorError")}
_LOST: Final = {
    ("distributed", "KilledWorker"),
    ("distributed", "NoValidWorkerError"),  # no worker for `no-workers-timeout`
}


@dataclass(frozen=True, kw_only=True)
class Workers:
    """An executor that runs.

    Attributes:
        executor: to submit tasks to.
        name: for pytest's header.
        width: returns the number of tasks that may be in flight at once.
        close: cancels what is queued, and ends the workers that were started here.
        written: returns what workers wrote last, if they were started here.
    """

    executor: Executor
    name: str
    width: Callable[[], int]
    close: Callable[[], None]
    written: Callable[[], str] = str


def worker_lost(error: BaseException) -> bool:
    """Return whether a future failed because its worker was lost, and not by what it ran."""
    return breaks_all(error) or isinstance(error, LostError) or bool(_kinds(error) & _LOST)


def breaks_all(error: BaseException) -> bool:
    """Return whether the executor is broken as a whole, and has to be started again.

    Dask cancels all tasks when the connection to its scheduler is lost.
    """
    return isinstance(error, (BrokenExecutor, CancelledError)) or bool(_kinds(error) & _BROKEN)


def call_factory(target: str) -> Workers:
    """Return the executor that a user's function makes.

    Raises:
        UsageError: it cannot be imported or called, or returns something else.
    """
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
    if not isinstance(made, Executor):
        raise UsageError(
            f"{label} returned a {type(made).__name__}, which is no executor: return a "
            f"concurrent.futures.Executor, as Client.get_executor() of Dask is"
        )
    names = ("max_workers", "num_workers", "_max_workers")  # the last: the standard library's
    told = (getattr(made, name, None) for name in names)
    # A pool that breaks takes all tasks in flight with it: one waits, so that none idles.
    width = next((each for each in told if isinstance(each, int)), cores()) + 1
    return Workers(
        executor=made,
        name=f"{target} ({type(made).__name__})",
        width=lambda: width,
        close=partial(_shut_down, made),
    )


def _shut_down(executor: Executor) -> None:
    # Kept, because `shutdown` forgets them; Python 3.14 has `kill_workers` for it.
    processes = dict(getattr(executor, "_processes", None) or {})
    parameters = inspect.signature(executor.shutdown).parameters
    wrapper = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    taken = ("wait", "cancel_futures") if wrapper else tuple(parameters)
    # Standard library; loky.
    wanted = {"wait": False, "cancel_futures": True, "kill_workers": True}
    executor.shutdown(**{name: wanted[name] for name in wanted if name in taken})
    for process in processes.values():
        process.terminate()


def _kinds(error: BaseException) -> set[tuple[str, str]]:
    return {(each.__module__.partition(".")[0], each.__name__) for each in type(error).__mro__}
