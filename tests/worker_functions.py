"""Functions that tests send to workers, and executors that tests name. Imports nothing heavy."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import psutil


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def own_process(_: int = 0) -> int:
    """Number of the process."""
    return os.getpid()


def met(folder: str, count: int, name: str) -> tuple[str | None, int]:
    """An environment variable and the number of the process, once so many processes are here."""
    Path(folder, str(os.getpid())).touch()
    while len(list(Path(folder).iterdir())) < count:
        time.sleep(0.02)
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


def refuse(text: str) -> None:
    """Raise."""
    raise ValueError(text)


def spawned() -> Executor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def threads() -> Executor:
    return ThreadPoolExecutor(2)


def loky_pool() -> Executor:
    import loky

    return loky.get_reusable_executor(max_workers=2)


def processes_below(pid: int) -> set[psutil.Process]:
    """Return the processes that a process has started, and those that these have."""
    return set(psutil.Process(pid).children(recursive=True))


def ended(processes: set[psutil.Process], seconds: float) -> bool:
    """Return whether processes end in time; those of multiprocessing's own trackers may stay.

    Their exit status is left to who started them: without it an executor takes them for alive.
    """
    end = time.monotonic() + seconds
    while any(runs(each) and not _tracker(each) for each in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _tracker(process: psutil.Process) -> bool:
    try:
        return "resource_tracker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
