"""Processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import worker_functions as calls

from grb_check.execution.gpus import VISIBLE
from grb_check.execution.processes import start_processes
from grb_check.execution.workers import Workers, breaks_all

WAIT = 600  # seconds, until which a test fails instead of waiting for ever


@pytest.fixture
def two() -> Iterator[Workers]:
    workers = start_processes(2, ["GPU-first", "GPU-second"])
    yield workers
    workers.close()


def test_each_process_sees_one_gpu(two: Workers, tmp_path: Path) -> None:
    """And both run at the same time, none of which is this one."""
    busy = [two.executor.submit(calls.met, str(tmp_path), 2, VISIBLE) for _ in range(2)]
    found = [each.result(WAIT) for each in busy]
    assert {gpu for gpu, _ in found} == {"GPU-first", "GPU-second"}
    assert len({pid for _, pid in found} - {os.getpid()}) == 2


def test_what_a_lost_process_wrote_is_kept(two: Workers) -> None:
    """And not on the terminal; the pool ends with it."""
    error = two.executor.submit(calls.die, "last words").exception(WAIT)
    assert error is not None
    assert breaks_all(error)
    assert "last words" in two.written()


STARTS = """
import sys
import time
sys.path[:0] = {path!r}
import worker_functions as calls
from grb_check.execution.processes import start_processes

workers = start_processes(2)
print(workers.executor.submit(calls.own_process).result(), flush=True)
time.sleep(3600)
"""


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
