"""A second try for what was lost with its worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import LostError
from grb_check.execution.retrying import Retrying

WAIT = 600  # seconds, until which a test fails instead of waiting for ever


class Imitation:
    """Workers that do what a test says, and count."""

    name = "imitation"

    def __init__(self, width: int, answer: Callable[[int, int], object]) -> None:
        self.width = width
        self.restarts = 0
        self.most = 0
        self.closed = False
        self._answer = answer
        self._tries: dict[int, int] = {}
        self._busy = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._busy += 1
            self.most = max(self.most, self._busy)
        threading.Thread(target=self._run, args=(future, arguments[0])).start()
        return future

    def _run(self, future: Future[Any], number: int) -> None:
        with self._lock:
            self._tries[number] = self._tries.get(number, 0) + 1
        found = self._answer(number, self._tries[number])
        with self._lock:
            self._busy -= 1
        if isinstance(found, BaseException):
            future.set_exception(found)
        else:
            future.set_result(found)

    def doing(self) -> list[str]:
        return []

    def restart(self) -> None:
        self.restarts += 1

    def close(self) -> None:
        self.closed = True


def nothing() -> None:
    """Never called: an imitation of workers looks at the arguments only."""


@pytest.fixture
def calls() -> Iterator[list[Retrying]]:
    made: list[Retrying] = []
    yield made
    for each in made:
        each.close()


LOSSES = {
    "lost": LostError("gone"),
    "broken": BrokenExecutor("all gone"),
    "memory": MemoryError("too much"),
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
    calls = Retrying(workers)
    futures = [calls.submit(nothing, number) for number in range(8)]
    found = [each.exception(WAIT) or each.result(WAIT) for each in futures]
    for number, each in enumerate(found):
        lost = [number < len(part) and bool(part[number]) for part in (first, second)]
        assert isinstance(each, LostError) if all(lost) else each == number
    assert workers.most <= width
    calls.close()
    assert workers.closed


def test_suspects_of_a_break_down_are_tried_alone(calls: list[Retrying]) -> None:
    """The one to blame takes nobody with it the second time."""
    together = threading.Barrier(3)

    def answer(number: int, tries: int) -> object:
        if tries == 1 and number < 3:
            together.wait(WAIT)
            return BrokenExecutor("all gone")
        return BrokenExecutor("again") if number == 1 else number

    workers = Imitation(3, answer)
    calls.append(Retrying(workers))
    futures = [calls[0].submit(nothing, number) for number in range(5)]
    assert [each.result(WAIT) for each in (futures[0], *futures[2:])] == [0, 2, 3, 4]
    with pytest.raises(LostError, match=r"^lost twice: again$"):
        futures[1].result(WAIT)
    assert workers.restarts == 2  # once for each time, not for each call
