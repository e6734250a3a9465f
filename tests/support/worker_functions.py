"""Functions that tests send to workers, and those that make executors. Imports nothing heavy."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

WAITED = 0.02


def own_process(_: int = 0) -> int:
    """Number of the process."""
    return os.getpid()


def met(folder: str, count: int, name: str) -> tuple[str | None, int]:
    """An environment variable and the number of the process, once so many processes are here."""
    Path(folder, str(os.getpid())).touch()
    while len(list(Path(folder).iterdir())) < count:
        time.sleep(WAITED)
    return os.environ.get(name), os.getpid()


def sleep(seconds: float) -> float:
    """Sleep."""
    time.sleep(seconds)
    return seconds


def die(text: str = "") -> None:
    """Write a text and be killed."""
    sys.stderr.write(text)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Bare(Executor):
    """Calls each function at once, and knows nothing of its width."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


def bare() -> Executor:
    """Return an executor of one's own."""
    return Bare()


def threads() -> Executor:
    """Return threads of this process."""
    return ThreadPoolExecutor(3)


def spawned() -> Executor:
    """Return processes of the standard library."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@contextmanager
def within() -> Iterator[Executor]:
    """Yield an executor, and write into a file when that begins and ends."""
    with Path(os.environ["LOG"]).open("a") as log:
        log.write("entered ")
    yield Bare()
    with Path(os.environ["LOG"]).open("a") as log:
        log.write("left ")


@contextmanager
def fragile() -> Iterator[Executor]:
    """Yield an executor, and fail at the end."""
    yield Bare()
    raise RuntimeError("not today")


@contextmanager
def of_a_number() -> Iterator[int]:
    """Yield what is no executor."""
    yield 1


def ended() -> Executor:
    """End the interpreter, as scripts do without arguments."""
    raise SystemExit(2)


@contextmanager
def cluster() -> Iterator[Executor]:
    """Yield an executor of two processes of Dask, none of which tries again by itself."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.nanny.pre-spawn-environ": {},
    }
    with (
        dask.config.set(settings),
        LocalCluster(2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as made,
        Client(made) as client,
    ):
        executor = client.get_executor(pure=False, retries=0)
        executor.max_workers = 2
        yield executor
