"""Functions that tests send to workers, and executors that tests name. Imports nothing heavy."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import psutil

from grb_check.execution.run_task import TELL


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def own_process(_: int = 0) -> int:
    """Number of the process."""
    return os.getpid()


def variable(name: str) -> str | None:
    """An environment variable."""
    return os.environ.get(name)


def sleep(seconds: float) -> float:
    """Sleep."""
    time.sleep(seconds)
    return seconds


def die(text: str = "") -> None:
    """Write a text and be killed."""
    sys.stderr.write(text)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    """Give no sign of life any more."""
    os.kill(os.getpid(), signal.SIGSTOP)


def refuse(text: str) -> None:
    """Raise."""
    raise ValueError(text)


def tell(text: str, mark: str) -> None:
    """Say what is done, and do it until there is a file."""
    TELL.get()(text)
    while not Path(mark).exists():
        time.sleep(0.02)


def spawned() -> Executor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def threads() -> Executor:
    return ThreadPoolExecutor(2)


def loky_pool() -> Executor:
    import loky

    return loky.get_reusable_executor(max_workers=2)


def dask_client() -> object:
    from distributed import Client, LocalCluster

    return Client(LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0"))


class NoFutures(ThreadPoolExecutor):
    """Its `submit` returns what is no future."""

    def submit(self, fn: Callable[..., object], /, *args: object, **kwargs: object) -> Future:  # type: ignore[override,type-arg]
        return fn(*args, **kwargs)  # type: ignore[return-value]


def processes_below(pid: int) -> set[psutil.Process]:
    """Return the processes that a process has started, and those that these have."""
    return set(psutil.Process(pid).children(recursive=True))


def ended(processes: set[psutil.Process], seconds: float) -> bool:
    """Return whether processes end in time; those of multiprocessing's own trackers may stay.

    Their exit status is left to who started them: without it an executor takes them for alive.
    """
    end = time.monotonic() + seconds
    while any(_runs(each) and not _tracker(each) for each in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _tracker(process: psutil.Process) -> bool:
    try:
        return "resource_tracker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
