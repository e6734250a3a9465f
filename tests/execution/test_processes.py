"""Processes of this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_functions import (
    die,
    die_once,
    double,
    full,
    noise,
    own_process,
    raise_strange,
    refuse,
    sleep,
    stop,
    tell,
    variable,
)

from grb_check.errors import LostError
from grb_check.execution.processes import Processes
from grb_check.execution.retrying import Retrying

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


def test_an_error_is_that_of_the_function(two: Processes) -> None:
    """One that cannot cross processes keeps its text."""
    with pytest.raises(ValueError, match=r"^no$"):
        two.submit(refuse, "no").result(WAIT)
    with pytest.raises(OSError, match="No space left"):  # no sign of a lost process
        two.submit(full).result(WAIT)
    with pytest.raises(RuntimeError, match="Strange: strange"):
        two.submit(raise_strange).result(WAIT)


def test_a_process_that_dies_costs_its_call_alone(two: Processes) -> None:
    """The others go on, and another process takes its place."""
    longer = two.submit(sleep, 1.0)
    with pytest.raises(LostError, match=r"signal 9\); it wrote: last words"):
        two.submit(die, "last words").result(WAIT)
    assert longer.result(WAIT) == 1.0
    both = {two.submit(own_process, each).result(WAIT) for each in range(6)}
    assert all(not gone(pid) for pid in both)


def test_what_a_process_writes_is_kept_from_the_terminal(
    two: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    """C code included."""
    two.submit(noise).result(WAIT)
    assert capfd.readouterr() == ("", "")


def test_a_process_that_is_killed_from_outside_is_lost(two: Processes, tmp_path: Path) -> None:
    """As by the system when there is no memory left."""
    pid = two.submit(own_process).result(WAIT)
    calls = [two.submit(tell, "busy", str(tmp_path / "end")) for _ in range(2)]
    wait_for(lambda: two.doing() == ["busy", "busy"])
    os.kill(pid, signal.SIGKILL)
    (tmp_path / "end").touch()
    errors = [each.exception(WAIT) for each in calls]
    assert sorted(type(each) for each in errors if each is not None) == [LostError]


@pytest.mark.slow
def test_a_process_without_a_sign_of_life_is_killed() -> None:
    """And its call is lost."""
    processes = Processes(1, hangs=30.0)
    try:
        pid = processes.submit(own_process).result(WAIT)
        with pytest.raises(LostError, match="no sign of life for 30 s"):
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


def test_a_process_that_cannot_be_started_is_started_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing outside is touched when it never was."""
    before = os.stat(os.devnull)

    def refuses(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", refuses)
        never, later = Processes(1), Processes(1)
        never.close()
        wait_for(lambda: not later.doing())
        with pytest.raises(LostError, match="ended unexpectedly"):
            later.submit(double, 1).result(WAIT)
    assert later.submit(double, 1).result(WAIT) == 2
    later.close()
    assert os.stat(os.devnull).st_mode == before.st_mode


def test_a_lost_call_is_tried_once_more(tmp_path: Path) -> None:
    """In another process."""
    calls = Retrying(Processes(1))
    try:
        before = calls.submit(own_process).result(WAIT)
        assert calls.submit(die_once, str(tmp_path / "mark")).result(WAIT) != before
        with pytest.raises(LostError, match=r"^lost twice: its process ended unexpectedly"):
            calls.submit(die).result(WAIT)
    finally:
        calls.close()
