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
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grb_check import errors
from grb_check.runs.tasks import Task, Victim
from grb_check.runs.workers.calls import Workers
from grb_check.runs.workers.resources import VISIBLE
from grb_check.runs.workers.step_files import StepFiles

# The datasets and victims of a process are no leak for which loky should start it again.
_NO_LEAKS: Final = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}
_LAST: Final = 2_000  # characters of what processes wrote that are shown
_PARENT: Final = 2.0  # seconds between two looks at the process that started this one


class Processes(Executor):
    """Pools of one process each, so that a task may go to the process that has its victim.

    It goes to that process if it is idle, and else where least is to be done.

    Args:
        pools: of one process each.
    """

    def __init__(self, pools: Sequence[Executor]) -> None:
        self._pools = pools
        self._running: list[set[Future[Any]]] = [set() for _ in pools]
        self._trained_by: dict[Victim, int] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in one of the processes; `run_task` with a `Task` is."""
        for futures in self._running:
            futures -= {future for future in futures if future.done()}
        number = min(range(len(self._pools)), key=lambda index: len(self._running[index]))
        if args and isinstance(args[0], Task):
            task = args[0]
            home = self._trained_by.get(task.victim)
            if home is not None and not self._running[home]:
                number = home
            self._trained_by[task.victim] = number
        future = self._pools[number].submit(function, *args, **kwargs)
        self._running[number].add(future)
        return future


@dataclass(frozen=True, kw_only=True)
class WorkerPlace:
    """The place of workers that measure other files than those of this process.

    Attributes:
        cwd: their working directory, which is made if it is missing.
        path: their `sys.path`.
    """

    cwd: str
    path: tuple[str, ...]


def start_processes(
    count: int, gpus: Sequence[str] = (), place: WorkerPlace | None = None
) -> Workers:
    """Start processes, each with one task at a time.

    Args:
        count: of processes, at least 1.
        gpus: entries of `CUDA_VISIBLE_DEVICES`, of which each process sees one.
        place: of other files; None for that of this process.
    """
    import loky  # most runs start no processes

    folder = tempfile.TemporaryDirectory(prefix="grb_check-", ignore_cleanup_errors=True)
    pools = [
        loky.ProcessPoolExecutor(
            1,
            initializer=_begin,
            initargs=(folder.name, gpus[number % len(gpus)] if gpus else None, place),
            env=_NO_LEAKS,
        )
        for number in range(count)
    ]

    for pool in pools:
        pool.submit(int)  # starts the process, which imports torch while others do

    def close() -> None:
        for pool in pools:
            pool.shutdown(wait=True, kill_workers=True)
        folder.cleanup()

    def written() -> str:
        texts = [path.read_text(errors="replace") for path in Path(folder.name).glob("*.txt")]
        return "".join(texts).strip()[-_LAST:]

    return Workers(
        executor=Processes(pools),
        name=errors.count(count, "process", "processes"),
        width=count,
        close=close,
        written=written,
        steps=StepFiles(folder.name),
    )


def _begin(folder: str, gpu: str | None, place: WorkerPlace | None) -> None:
    """Prepare a process, before anything of the user's is imported."""
    if place is not None:
        os.makedirs(place.cwd, exist_ok=True)
        os.chdir(place.cwd)
        sys.path[:] = place.path
        sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that was started
    _write_to(Path(folder) / f"{os.getpid()}.txt")
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(Exception):  # the first task tells what is wrong
        # Importing torch takes seconds, which all processes spend at the same time.
        importlib.import_module("grb_check.evaluation.evaluator")


def end_with(parent: int) -> None:
    """End this process when the one that started it has ended."""
    while os.getppid() == parent:
        time.sleep(_PARENT)
    os._exit(1)


def _write_to(path: Path) -> None:
    """Redirect what this process writes, C code included, away from the terminal."""
    sys.stdout.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
