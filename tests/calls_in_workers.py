"""What tests send to workers, and executors that tests name."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import psutil


def double(number: int) -> int:
    return 2 * number


def number_of_process() -> int:
    return os.getpid()


def variable(name: str) -> str | None:
    return os.environ.get(name)


def fail() -> None:
    raise ValueError("as a task may")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_for_a_minute() -> None:
    time.sleep(60)


def spawned() -> Executor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def threads() -> Executor:
    return ThreadPoolExecutor(2)


def loky_pool() -> Executor:
    import loky

    return loky.get_reusable_executor(max_workers=2)


def executorlib_pool() -> Executor:
    import executorlib

    return executorlib.SingleNodeExecutor(max_workers=2)


def mpi_pool() -> Executor:
    from mpi4py.futures import MPIPoolExecutor

    return MPIPoolExecutor(2)


def dask_client() -> object:
    from distributed import Client, LocalCluster

    return Client(LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0"))


class NoFutures(ThreadPoolExecutor):
    """Its `submit` returns what is no future."""

    def submit(self, fn: Callable[..., object], /, *args: object, **kwargs: object) -> Future:  # type: ignore[override,type-arg]
        return fn(*args, **kwargs)  # type: ignore[return-value]


def not_callable_without_arguments(size: int) -> Executor:
    return ThreadPoolExecutor(size)


def processes_below(pid: int) -> set[psutil.Process]:
    """Return the processes that a process has started, and those that these have."""
    return set(psutil.Process(pid).children(recursive=True))


def ended(processes: set[psutil.Process], seconds: float) -> bool:
    """Return whether processes end in time; those of multiprocessing's own trackers may stay."""
    _, alive = psutil.wait_procs([each for each in processes if not _tracker(each)], seconds)
    return not alive


def _tracker(process: psutil.Process) -> bool:
    try:
        return "resource_tracker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
