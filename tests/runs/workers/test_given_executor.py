"""Executors that a function of the user's makes."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Literal

import psutil
import pytest
import worker_functions as calls

from grb_check.errors import UsageError
from grb_check.runs.workers.given_executor import start_executor
from grb_check.runs.workers.resources import cores
from grb_check.runs.workers.retrying import breaks_all, of_the_task

WAIT = 600  # seconds, until which a test fails instead of waiting for ever


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of these tests, for interpreters that are started without our `sys.path`."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("spawned", ["'spawned'", "pkg.module:attr"]),
        ("nowhere:spawned", ["nowhere"]),
        ("worker_functions:nothing", ["no attribute 'nothing'"]),
        ("worker_functions:WAITED", ["names a float", "concurrent.futures.Executor"]),
        ("worker_functions:sleep", ["raised", "missing 1 required"]),
        ("worker_functions:ended", ["raised", "SystemExit"]),
        ("worker_functions:own_process", ["made a int", "concurrent.futures.Executor"]),
        ("worker_functions:of_a_number", ["made a int"]),
    ],
)
def test_what_makes_no_executor_is_an_error(target: str, said: list[str]) -> None:
    """Before any work."""
    with pytest.raises(UsageError) as raised:
        start_executor(target)
    assert [each for each in said if each not in str(raised.value)] == []


@pytest.mark.parametrize(
    ("target", "given", "width"),
    [("threads", None, 1), ("threads", 2, 2), ("spawned", None, 2), ("bare", None, cores())],
)
def test_as_many_tasks_are_in_flight_as_the_executor_takes(
    target: str, given: int | None, width: int
) -> None:
    """Or as are asked for; the cores of this machine where nobody knows."""
    workers = start_executor(f"worker_functions:{target}", given)
    assert workers.width == width
    assert workers.name.startswith(f"worker_functions:{target} (")
    workers.close()


def test_a_time_limit_needs_the_number_of_workers() -> None:
    """It would count the time in which tasks wait for one."""
    with pytest.raises(UsageError, match="give --grb-jobs=N as well"):
        start_executor("worker_functions:bare", timed=True)
    start_executor("worker_functions:bare", 3, timed=True).close()
    start_executor("worker_functions:threads", timed=True).close()


@pytest.mark.parametrize("kind", ["default", "error"])
def test_an_error_at_the_end_loses_nothing(kind: Literal["default", "error"]) -> None:
    """It is a warning, and nothing at all where warnings are errors."""
    workers = start_executor("worker_functions:fragile")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(kind)
        workers.close()
    said = [str(warning.message) for warning in caught]
    assert all("raised when it was closed: not today" in text for text in said)
    assert len(said) == (kind == "default")


def test_a_context_is_left_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And entered again where workers are started again."""
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    for _ in range(2):
        start_executor("worker_functions:within").close()
    assert (tmp_path / "log").read_text() == "entered left entered left "


def test_a_lost_worker_of_a_pool_is_told() -> None:
    """A pool of the standard library is broken then; one that is made anew goes on."""
    workers = start_executor("worker_functions:spawned")
    error = workers.executor.submit(calls.die).exception(WAIT)
    workers.close()
    assert error is not None
    assert breaks_all(error)
    assert not of_the_task(error)
    again = start_executor("worker_functions:spawned")
    assert again.executor.submit(calls.own_process).result(WAIT) != os.getpid()
    again.close()


@pytest.mark.parametrize("target", ["spawned", "cluster"])
def test_closing_ends_processes_that_are_busy(target: str) -> None:
    """None stays behind to finish its task; closed by another thread than the one that began."""
    workers = start_executor(f"worker_functions:{target}")
    process = psutil.Process(workers.executor.submit(calls.own_process).result(WAIT))
    for _ in range(4):
        workers.executor.submit(calls.sleep, 3600)
    thread = threading.Thread(target=workers.close)
    thread.start()
    thread.join(WAIT)
    end = time.monotonic() + WAIT
    while calls.runs(process):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_lost_worker_of_dask_is_told() -> None:
    """At once, and others go on."""
    workers = start_executor("worker_functions:cluster")
    try:
        assert workers.width == 2
        error = workers.executor.submit(calls.die).exception(WAIT)
        assert error is not None
        assert not of_the_task(error)
        assert not breaks_all(error)
        assert workers.executor.submit(calls.own_process).result(WAIT) != os.getpid()
    finally:
        workers.close()
