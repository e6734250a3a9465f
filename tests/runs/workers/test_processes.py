"""Processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import psutil
import pytest
import worker_functions as calls

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.runs.steps import measure
from grb_check.runs.tasks import ModelOnDataset, Task
from grb_check.runs.workers.calls import Workers
from grb_check.runs.workers.processes import Processes, start_processes
from grb_check.runs.workers.resources import VISIBLE
from grb_check.runs.workers.retrying import breaks_all
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import RunSettings

SOURCE = datasets.find("synthetic-cora")
WAIT = 600  # seconds, until which a test fails instead of waiting for ever


@pytest.fixture
def two() -> Iterator[Workers]:
    workers = start_processes(2, ["GPU-first", "GPU-second"])
    yield workers
    workers.close()


@pytest.mark.slow
def test_each_process_sees_one_gpu(two: Workers, tmp_path: Path) -> None:
    """And both run at the same time, none of which is this one."""
    busy = [two.executor.submit(calls.met, str(tmp_path), 2, VISIBLE) for _ in range(2)]
    results = [future.result(WAIT) for future in busy]
    assert {gpu for gpu, _ in results} == {"GPU-first", "GPU-second"}
    assert len({pid for _, pid in results} - {os.getpid()}) == 2


@pytest.mark.slow
def test_what_a_lost_process_wrote_is_kept(two: Workers) -> None:
    """And not on the terminal; the pool ends with it."""
    error = two.executor.submit(calls.die, "last words").exception(WAIT)
    assert error is not None
    assert breaks_all(error)
    assert "last words" in two.written()


def test_closing_ends_processes_that_are_busy() -> None:
    """None stays behind to finish its task."""
    workers = start_processes(1)
    process = psutil.Process(workers.executor.submit(calls.own_process).result(WAIT))
    workers.executor.submit(calls.sleep, 3600)
    workers.close()
    end = time.monotonic() + WAIT
    while calls.runs(process):
        assert time.monotonic() < end
        time.sleep(0.02)


class Listing(Executor):
    """Runs nothing; its future is done when the test says so."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]

    def finish(self) -> None:
        for future in self.futures:
            future.set_result(None)
        self.futures.clear()


def task_of(seed: int) -> Task:
    return Task(
        step=measure,
        settings=RunSettings(device="cpu"),
        on=ModelOnDataset(ModelSpec(label="gcn", target="grb_check.models:gcn"), SOURCE),
        cases=(Case("synthetic-cora", "easy", "injection", "pgd+white-box"),),
        seed=seed,
        repeats=2,
    )


def test_tasks_wait_for_no_process() -> None:
    """They go to the one that has their victim if it is idle."""
    pools = Listing(), Listing()
    processes = Processes(pools)
    processes.submit(calls.own_process, task_of(0))
    processes.submit(calls.own_process, task_of(1))
    pools[1].finish()
    processes.submit(calls.own_process, task_of(0))
    assert [len(executor.futures) for executor in pools] == [1, 1]
    pools[0].finish()
    pools[1].finish()
    processes.submit(calls.own_process, task_of(1))
    assert [len(executor.futures) for executor in pools] == [0, 1]


STARTS = """
import sys
import time
sys.path[:0] = {path!r}
import worker_functions as calls
from grb_check.runs.workers.processes import start_processes

workers = start_processes(2)
print(workers.executor.submit(calls.own_process).result(), flush=True)
time.sleep(3600)
"""


@pytest.mark.slow
def test_processes_end_with_the_one_that_started_them() -> None:
    """Though it was killed, and could not tell them."""
    starts = STARTS.format(path=sys.path)
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE) as main:
        assert main.stdout is not None
        pid = int(main.stdout.readline())
        worker = psutil.Process(pid)
        main.kill()
        end = time.monotonic() + WAIT
        while calls.runs(worker):
            assert time.monotonic() < end
            time.sleep(0.1)
