"""What `--grb-executor` names, but for Dask."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
import worker_functions as calls

from grb_check.errors import UsageError
from grb_check.execution.calls import Workers, breaks_all, worker_lost
from grb_check.execution.start import starter

SECONDS = 600  # until which a test fails instead of waiting for ever
IN_PROCESSES = ["spawned", "loky_pool"]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of these tests, for interpreters that are started without our `sys.path`."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.fixture(params=[*IN_PROCESSES, "threads"])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    opened = starter(f"worker_functions:{request.param}")()
    yield opened
    opened.close()


def test_calls_return_and_raise_in_any_executor(workers: Workers) -> None:
    """What a task raises does not look like a lost worker."""
    assert workers.executor.submit(calls.double, 21).result(SECONDS) == 42
    error = workers.executor.submit(calls.refuse, "as a task may").exception(SECONDS)
    assert isinstance(error, ValueError)
    assert not worker_lost(error)
    assert workers.width() == 3
    assert workers.name.startswith("worker_functions:")


@pytest.mark.parametrize("made", IN_PROCESSES)
def test_a_lost_worker_is_told_and_others_go_on(made: str) -> None:
    """After another start, since the executor broke as a whole."""
    start = starter(f"worker_functions:{made}")
    workers = start()
    error = workers.executor.submit(calls.die).exception(SECONDS)
    workers.close()
    assert error is not None
    assert worker_lost(error)
    assert breaks_all(error)
    again = start()
    try:
        assert again.executor.submit(calls.double, 1).result(SECONDS) == 2
    finally:
        again.close()


@pytest.mark.parametrize("made", IN_PROCESSES)
def test_closing_ends_processes_that_are_busy(made: str) -> None:
    """None stays behind to finish its task."""
    others = calls.processes_below(os.getpid())
    workers = starter(f"worker_functions:{made}")()
    pid = workers.executor.submit(calls.own_process).result(SECONDS)
    for _ in range(6):
        workers.executor.submit(calls.sleep, 3600)
    started = calls.processes_below(os.getpid()) - others
    assert pid in {each.pid for each in started}
    workers.close()
    assert calls.ended(started, SECONDS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dusk", ["'dusk'", "dask:tcp://HOST:PORT", "pkg.module:factory"]),
        ("dask:here", ["dask:here", "no Dask scheduler"]),
        ("worker_functions:SECONDS", ["no attribute 'SECONDS'"]),
        ("worker_functions:double", ["raised when called", "missing 1 required"]),
        ("worker_functions:own_process", ["returned a int", "concurrent.futures.Executor"]),
        ("worker_functions:__name__", ["names a str", "cannot be called"]),
    ],
)
def test_what_is_no_executor_is_an_error(text: str, said: list[str]) -> None:
    """Before any work."""
    with pytest.raises(UsageError) as raised:
        starter(text)()
    assert [each for each in said if each not in str(raised.value)] == []


def test_a_own_processes_is_for_this_machine_only() -> None:
    """An executor has its own."""
    with pytest.raises(UsageError, match="for 3 processes of this machine"):
        starter("worker_functions:threads", jobs=3)
