"""A second try for what was lost with its worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import LostError, UsageError
from grb_check.runs.process import UnexpectedError
from grb_check.runs.tasks import Task
from grb_check.runs.workers.calls import Workers
from grb_check.runs.workers.retrying import Retrying

WAIT = 600  # seconds, until which a test fails instead of waiting for ever


class Imitation(Executor):
    """Workers that do what a test says, and count."""

    def __init__(self, width: int, answer: Callable[[int, int], object]) -> None:
        self.width = width
        self.starts = 0
        self.most = 0
        self.closed = 0
        self._answer = answer
        self._tries: dict[int, int] = {}
        self._busy = 0
        self._lock = threading.Lock()

    def start(self) -> Workers:
        self.starts += 1
        return Workers(executor=self, name="imitation", width=self.width, close=self._count_close)

    def _count_close(self) -> None:
        self.closed += 1

    def submit(self, _: Any, /, *arguments: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._busy += 1
            self.most = max(self.most, self._busy)
        threading.Thread(target=self._run, args=(future, arguments[0]), daemon=True).start()
        return future

    def _run(self, future: Future[Any], number: int) -> None:
        future.set_running_or_notify_cancel()
        with self._lock:
            self._tries[number] = self._tries.get(number, 0) + 1
        answer = self._answer(number, self._tries[number])
        with self._lock:
            self._busy -= 1
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def submitted(calls: Retrying, numbers: Iterable[int]) -> list[Future[Any]]:
    """Submit numbers, which an imitation of workers takes for tasks."""
    return [calls.submit(cast(Task, number)) for number in numbers]


@pytest.fixture
def calls() -> Iterator[list[Retrying]]:
    created: list[Retrying] = []
    yield created
    for retrying in created:
        retrying.close()


LOSSES = {
    "lost": LostError("gone"),
    "broken": BrokenExecutor("all gone"),
    "memory": MemoryError("too much"),
    "of an executor": RuntimeError("a class of its own for a worker that died"),
}


@given(
    st.lists(st.sampled_from(["", *LOSSES]), max_size=8),
    st.lists(st.sampled_from(["", *LOSSES]), max_size=8),
    st.integers(1, 4),
)
def test_each_call_ends_with_its_result_or_is_lost_twice(
    first: list[str], second: list[str], width: int
) -> None:
    """Never more at once than there is room for, and never a third try."""

    def answer(number: int, tries: int) -> object:
        assert tries <= 2
        losses = (first, second)[tries - 1]
        kind = losses[number] if number < len(losses) else ""
        return LOSSES.get(kind, number)

    workers = Imitation(width, answer)
    calls = Retrying(workers.start)
    futures = submitted(calls, range(8))
    results = [future.exception(WAIT) or future.result(WAIT) for future in futures]
    for number, result in enumerate(results):
        lost = [number < len(part) and bool(part[number]) for part in (first, second)]
        if all(lost):
            assert isinstance(result, LostError)
        elif not lost[1] or "broken" not in (*first, *second):  # or another one took it with it
            assert result == number
    assert workers.most <= width
    calls.close()
    assert workers.closed == workers.starts


@pytest.mark.parametrize("error", [UsageError("the user's"), UnexpectedError("in a worker")])
def test_what_a_task_raises_is_not_tried_again(calls: list[Retrying], error: Exception) -> None:
    """It is the answer."""
    tried: list[int] = []
    workers = Imitation(1, lambda number, _: tried.append(number) or error)
    calls.append(Retrying(workers.start))
    (future,) = submitted(calls[0], [7])
    assert future.exception(WAIT) is error
    assert tried == [7]


def test_what_an_executor_leaves_open_is_tried_again(calls: list[Retrying]) -> None:
    """Some never end the futures of workers that are gone."""
    begun, ended = threading.Semaphore(0), threading.Event()

    def answer(number: int, tries: int) -> object:
        if tries > 1:
            return number
        begun.release()
        if number == 0:
            begun.acquire(), begun.acquire()  # both have begun
            return BrokenExecutor("all gone")
        ended.wait(WAIT)  # for ever, as far as the run is concerned
        return number

    workers = Imitation(2, answer)
    calls.append(Retrying(workers.start))
    futures = submitted(calls[0], range(2))
    assert [future.result(WAIT) for future in futures] == [0, 1]
    ended.set()
    assert workers.starts == 2


def test_an_error_of_the_queue_itself_ends_all_tasks(calls: list[Retrying]) -> None:
    """Whoever waits for one is told, and whoever submits another."""

    def close() -> None:
        raise ZeroDivisionError("an error of ours")

    workers = Imitation(1, lambda *_: BrokenExecutor("all gone"))
    retrying = Retrying(lambda: replace(workers.start(), close=close))
    futures = submitted(retrying, range(3))
    for future in (*futures, *submitted(retrying, range(1))):
        with pytest.raises(LostError, match="an error of ours"):
            future.result(WAIT)


def test_closing_cancels_what_an_executor_has_not_begun() -> None:
    """Or threads would train on after Ctrl-C."""

    class Queue(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            queued.append(Future())
            taken.release()
            return queued[-1]

    queued: list[Future[Any]] = []
    taken = threading.Semaphore(0)
    workers = Workers(executor=Queue(), name="queue", width=2, close=lambda: None)
    retrying = Retrying(lambda: workers)
    submitted(retrying, range(3))
    assert all(taken.acquire(timeout=WAIT) for _ in range(2))
    retrying.close()
    assert [future.cancelled() for future in queued] == [True, True]


def test_suspects_of_a_break_down_are_tried_alone(calls: list[Retrying]) -> None:
    """The one to blame takes nobody with it the second time."""
    together = threading.Barrier(3)

    def answer(number: int, tries: int) -> object:
        if tries == 1 and number < 3:
            together.wait(WAIT)
            return BrokenExecutor("all gone")
        return BrokenExecutor("again") if number == 1 else number

    workers = Imitation(3, answer)
    calls.append(Retrying(workers.start))
    futures = submitted(calls[0], range(5))
    assert [future.result(WAIT) for future in (futures[0], *futures[2:])] == [0, 2, 3, 4]
    with pytest.raises(LostError, match=r"^lost twice: again$"):
        futures[1].result(WAIT)
    assert workers.starts == 3  # once more for each time, not for each task


def test_a_task_that_takes_too_long_is_lost_at_once(
    calls: list[Retrying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is not waited for, and the others are run by workers that are started again."""
    never, late = threading.Event(), threading.Event()
    clock = SimpleNamespace(monotonic=lambda: 1000.0 if late.is_set() else 0.0)
    monkeypatch.setattr("grb_check.runs.workers.retrying.time", clock)

    def answer(number: int, tries: int) -> object:
        if number == 0:
            never.wait(WAIT)
        return number

    workers = Imitation(2, answer)
    calls.append(Retrying(workers.start, timeout=600))
    futures = submitted(calls[0], range(4))
    assert [future.result(WAIT) for future in futures[1:]] == [1, 2, 3]
    late.set()
    with pytest.raises(LostError, match="600 s of --grb-timeout"):
        futures[0].result(WAIT)
    assert submitted(calls[0], [4])[0].result(WAIT) == 4
    never.set()


def test_a_start_that_fails_loses_what_is_left(calls: list[Retrying]) -> None:
    """With its reason."""
    workers = Imitation(1, lambda *_: BrokenExecutor("all gone"))

    def start() -> Workers:
        if workers.starts:
            raise UsageError("no process starts")
        return workers.start()

    calls.append(Retrying(start))
    for future in submitted(calls[0], range(3)):
        with pytest.raises(LostError, match="no process starts"):
            future.result(WAIT)
