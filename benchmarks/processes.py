"""Steps in processes of their own, so that each has its own peak of memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from benchmarks.rows import Row


def alone(step: Callable[..., Row], *args: object) -> Row:
    """Return a step's row from a fresh process, or the error that ended it."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(step, *args).result()
    except BrokenProcessPool:
        return {"error": "the process was killed, most likely for its memory"}
    except Exception as error:  # one attack that fails does not end an hour's measurement
        return {"error": f"{type(error).__name__}: {error}"}
