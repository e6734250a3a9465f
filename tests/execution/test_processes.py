"""Processes of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_functions import (
    die,
    double,
    own_process,
    sleep,
    stop,
    tell,
    variable,
)

from grb_check.errors import LostError
from grb_check.execution.processes import Processes

WAIT = 600  # seconds, until which a test fails instead of waiting for ever


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    processes = Processes(2)
    yield processes
    processes.close()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_for(true: object) -> None:
    while not true():  # type: ignore[operator]
        time.sleep(0.02)


def test_calls_return_what_functions_return(two: Processes) -> None:
    """In as many processes as were asked for, none of which is this one."""
    assert [two.submit(double, each).result(WAIT) for each in range(5)] == [0, 2, 4, 6, 8]
    both = [two.submit(sleep, 0.3) for _ in range(2)]
    assert [each.result(WAIT) for each in both] == [0.3, 0.3]
    assert two.submit(own_process).result(WAIT) != os.getpid()


def test_a_process_that_dies_costs_its_call_alone(two: Processes) -> None:
    """The others go on, and another process takes its place."""
    longer = two.submit(sleep, 1.0)
    with pytest.raises(LostError, match=r"signal 9\); it wrote: last words"):
        two.submit(die, "last words").result(WAIT)
    assert longer.result(WAIT) == 1.0
    both = {two.submit(own_process, each).result(WAIT) for each in range(6)}
    assert all(not gone(pid) for pid in both)


@pytest.mark.slow
def test_a_process_without_a_sign_of_life_is_killed() -> None:
    """And its call is lost."""
    processes = Processes(1, hangs=12.0)
    try:
        pid = processes.submit(own_process).result(WAIT)
        with pytest.raises(LostError, match="no sign of life for 12 s"):
            processes.submit(stop).result(WAIT)
        assert gone(pid)
    finally:
        processes.close()


def test_closing_ends_every_process(tmp_path: Path) -> None:
    """Whatever it is doing; nothing is left."""
    processes = Processes(2, [{"WHICH": "first"}, {"WHICH": "second"}])
    found = {processes.submit(variable, "WHICH") for _ in range(4)}
    assert {each.result(WAIT) for each in found} <= {"first", "second"}
    pids = {processes.submit(own_process).result(WAIT)}
    doing = processes.submit(tell, "training", str(tmp_path / "never"))
    wait_for(lambda: processes.doing() == ["training"])
    processes.close()
    assert all(map(gone, pids))
    assert isinstance(doing.exception(WAIT), LostError)
