"""Delta debugging: find a small part of a failing input that still fails. Knows no graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Unit = TypeVar("Unit")


@dataclass(frozen=True)
class Shrunk(Generic[Unit]):
    """The result of a search.

    Attributes:
        units: a breaking part, in the given order.
        minimal: whether every single unit was tried, and none can be left out.
        tests: number of tests.
    """

    units: tuple[Unit, ...]
    minimal: bool
    tests: int


class _Stopped(Exception):
    """The tests, or the time for them, are used up."""


def shrink(
    units: Sequence[Unit],
    breaks: Callable[[Sequence[Unit]], bool],
    *,
    most_tests: int,
    most_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Shrunk[Unit]:
    """Return a small part of the units that still breaks.

    Bisection finds the shortest breaking prefix, which is short if the units that matter most come
    first. Then blocks are left out from its end on, each round with blocks of half the length, and
    at last single units until none can be left out: `Simplifying and Isolating Failure-Inducing
    Input <https://doi.org/10.1109/32.988498>`_ (Zeller and Hildebrandt 2002, minimising delta
    debugging without its subsets, which bisection replaces). `breaks` need not be monotone: every
    step is tested.

    Args:
        units: all of them together break, as the caller has tested.
        breaks: whether some of them, in their order, break.
        most_tests: after which the search stops.
        most_seconds: after which no test begins.
        clock: in seconds.

    Returns:
        A 1-minimal part, unless the search was stopped.
    """
    best, tests, end = tuple(units), 0, clock() + most_seconds

    def shrinks_to(part: tuple[Unit, ...]) -> bool:
        nonlocal best, tests
        if tests >= most_tests or clock() >= end:
            raise _Stopped
        tests += 1
        if breaks(part):
            best = part
            return True
        return False

    try:
        if best and not shrinks_to(()):
            _bisect(best, shrinks_to)
            size = len(best) // 2
            while size > 1:
                for stop in range(len(best), 0, -size):
                    shrinks_to(best[: max(0, stop - size)] + best[stop:])
                size //= 2
            position = to_try = len(best)
            while to_try > 0:  # until each has been tried since the last one was left out
                position = (position or len(best)) - 1
                rest = best[:position] + best[position + 1 :]
                to_try = len(rest) if rest and shrinks_to(rest) else to_try - 1
    except _Stopped:
        return Shrunk(best, False, tests)
    return Shrunk(best, True, tests)


def _bisect(units: tuple[Unit, ...], shrinks_to: Callable[[tuple[Unit, ...]], bool]) -> None:
    """Shrink to a breaking prefix; the empty one does not break."""
    not_enough, enough = 0, len(units)
    while enough - not_enough > 1:
        middle = (enough + not_enough) // 2
        if shrinks_to(units[:middle]):
            enough = middle
        else:
            not_enough = middle
