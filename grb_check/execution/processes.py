"""Processes of this machine, by loky.

Loads no torch: a process chooses its GPU before anything of CUDA is loaded.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from grb_check import errors
from grb_check.execution.gpus import VISIBLE
from grb_check.execution.workers import Workers

# What a process keeps, datasets and victims, is no leak for which loky should start it again.
_NO_LEAKS: Final = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}
_LAST: Final = 2_000  # characters of what processes wrote that are shown
_PARENT: Final = 2.0  # seconds between two looks at the process that started this one


def start_processes(count: int, gpus: Sequence[str] = ()) -> Workers:
    """Start processes, each with one task at a time.

    When one of them dies, the pool ends as a whole.

    Args:
        count: of processes, at least 1.
        gpus: entries of `CUDA_VISIBLE_DEVICES`, of which each process sees one.
    """
    import loky  # most runs start no processes

    folder = tempfile.TemporaryDirectory(prefix="grb_check-", ignore_cleanup_errors=True)
    executor = loky.ProcessPoolExecutor(
        count, initializer=_begin, initargs=(folder.name, gpus), env=_NO_LEAKS
    )

    def close() -> None:
        executor.shutdown(wait=True, kill_workers=True)
        folder.cleanup()

    def written() -> str:
        texts = [each.read_text(errors="replace") for each in Path(folder.name).glob("*.txt")]
        return "".join(texts).strip()[-_LAST:]

    return Workers(
        executor=executor,
        name=errors.count(count, "process", "processes"),
        width=lambda: count,
        close=close,
        written=written,
    )


def _begin(folder: str, gpus: Sequence[str]) -> None:
    """Prepare a process of the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that was started
    _write_to(Path(folder) / f"{os.getpid()}.txt")
    lock = None
    if gpus:
        number, lock = _place_among(len(gpus), Path(folder))
        os.environ[VISIBLE] = gpus[number]
    threading.Thread(target=_end_with, args=(os.getppid(), lock), daemon=True).start()
    with suppress(Exception):  # the first task tells what is wrong
        # Importing torch takes seconds, which all processes spend at the same time.
        importlib.import_module("grb_check.evaluation.evaluator")


def _end_with(parent: int, _held: FileLock | None) -> None:
    """End this process when the one that started it has ended; until then it holds a lock."""
    while os.getppid() == parent:
        time.sleep(_PARENT)
    os._exit(1)


def _place_among(count: int, folder: Path) -> tuple[int, FileLock | None]:
    """Return a number below a count that no living process of the pool has, if there is one."""
    for number in range(count):
        lock = FileLock(folder / f"{number}.lock", thread_local=False)
        with suppress(Timeout):
            lock.acquire(blocking=False)
            return number, lock
    return os.getpid() % count, None


def _write_to(path: Path) -> None:
    """Redirect what this process writes, C code included, away from the terminal."""
    sys.stdout.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for each in (1, 2):
        os.dup2(descriptor, each)
    os.close(descriptor)
