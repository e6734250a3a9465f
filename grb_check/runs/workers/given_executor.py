"""Workers of an executor that a function of the user's makes: of Dask, MPI, or a batch system."""

from __future__ import annotations

import warnings
from concurrent.futures import Executor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any, Final

from grb_check.errors import UsageError, one_line
from grb_check.runs.workers.calls import Workers
from grb_check.runs.workers.resources import cores
from grb_check.user_code.calls import short_traceback
from grb_check.user_code.factories import import_target

OPTION: Final = "--grb-executor"
EXPECTED: Final = "function without arguments that returns a concurrent.futures.Executor"


def start_executor(target: str, width: int | None = None) -> Workers:
    """Make the executor that a function makes.

    Args:
        target: `pkg.module:function`; it returns an `Executor`, or a context manager of one, which
            is left when the run ends, and may be called again where all workers were lost.
        width: tasks that may be in flight at once; default: the executor's `max_workers`, or the
            cores of this machine.

    Raises:
        UsageError: it cannot be imported or called, or makes something else.
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
    known = (getattr(made, name, None) for name in ("max_workers", "_max_workers"))
    own = next((each for each in known if isinstance(each, int)), None)

    def close() -> None:
        # Those of the standard library, which forgets them, and would let them end their tasks.
        processes = dict(getattr(made, "_processes", None) or {})
        try:
            made.shutdown(wait=False)
            for process in processes.values():
                process.kill()
            context.run(leaving.close)
        except Exception as error:  # what was measured is not lost with it
            warnings.warn(f"{label}: raised when it was closed: {one_line(error)}", stacklevel=2)

    return Workers(
        executor=made,
        name=f"{target} ({type(made).__name__})",
        width=width or own or cores(),
        close=close,
    )
