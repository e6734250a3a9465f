"""Workers of an executor that a function of the user's makes: of Dask, MPI, or a batch system."""

from __future__ import annotations

import warnings
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from typing import Any, Final

from grb_check.errors import UsageError, one_line
from grb_check.runs.workers.calls import Workers
from grb_check.runs.workers.resources import cores
from grb_check.user_code.calls import short_traceback
from grb_check.user_code.factories import import_target

OPTION: Final = "--grb-executor"
EXPECTED: Final = "function without arguments that returns a concurrent.futures.Executor"


def start_executor(target: str, width: int | None = None, *, timed: bool = False) -> Workers:
    """Make the executor that a function makes.

    Args:
        target: `pkg.module:function`; it returns an `Executor`, or a context manager of one, which
            is left when the run ends, and may be called again where all workers were lost.
        width: tasks that may be in flight at once; default: the executor's `max_workers`, or the
            cores of this machine. Threads of this process run one task at a time.
        timed: whether tasks have a time limit, in which none may wait for a worker.

    Raises:
        UsageError: it cannot be imported or called, or makes something else; or tasks are timed,
            and nobody knows how many it runs at once.
    """
    factory = import_target(target, "executor", EXPECTED)
    label, leaving = f"{OPTION}={target}", ExitStack()
    # Workers are started again in another thread, and what is left must be what was entered.
    context = copy_context()
    if not callable(factory):
        raise UsageError(f"{label} names a {type(factory).__name__}; name a {EXPECTED}")
    try:
        made: Any = context.run(factory)
        if not isinstance(made, Executor) and hasattr(made, "__enter__"):
            made = context.run(leaving.enter_context, made)
    except (Exception, SystemExit) as error:
        text = f"{label} raised, called without arguments:\n{short_traceback(error)}"
        raise UsageError(text) from error
    if not isinstance(made, Executor):
        context.run(leaving.close)
        raise UsageError(f"{label} made a {type(made).__name__}; name a {EXPECTED}")
    own = width or _own_width(made)
    if timed and own is None:
        context.run(leaving.close)
        raise UsageError(
            f"{label}: its executor does not say how many tasks it runs at once (max_workers), and "
            f"--grb-timeout would count the time in which a task waits; give --grb-jobs=N as well"
        )

    def close() -> None:
        try:
            # Those of the standard library, which forgets them, and would let them end their tasks.
            processes = getattr(made, "_processes", None)
            ended = [*processes.values()] if isinstance(processes, dict) else []
            made.shutdown(wait=False)
            for process in ended:
                process.kill()
            context.run(leaving.close)
        except Exception as error:  # what was measured is not lost with it
            with suppress(Warning):  # where warnings are errors
                text = f"{label}: raised when it was closed: {one_line(error)}"
                warnings.warn(text, stacklevel=2)

    return Workers(
        executor=made,
        name=f"{target} ({type(made).__name__})",
        width=own or cores(),
        close=close,
    )


def _own_width(executor: Executor) -> int | None:
    """Tasks that an executor runs at once; None if it does not say."""
    if isinstance(executor, ThreadPoolExecutor):
        return 1
    known = (getattr(executor, name, None) for name in ("max_workers", "_max_workers"))
    return next((each for each in known if isinstance(each, int)), None)
