"""Delta debugging: find a small part of a failing input that still fails. Knows no graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Unit = TypeVar("Unit")
Breaks = Callable[[Sequence[Unit]], bool]


@dataclass(frozen=True)
class Shrunk(Generic[Unit]):
    """The result of a search.

    Attributes:
        units: a breaking part, in the given order.
        minimal: whether every single unit was tried, and none can be left out.
    """

    units: tuple[Unit, ...]
    minimal: bool


@dataclass
class Patience:
    """A budget of tests and time; several searches may share one.

    Args:
        tests: largest number of tests.
        seconds: largest time from construction on; a running test is not stopped.
        clock: in seconds.

    Attributes:
        made: number of tests so far.
    """

    tests: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds

    def spend(self) -> None:
        """Count a test that is about to be made.

        Raises:
            Impatient: the tests or the time are used up.
        """
        if self.made >= self.tests or self.clock() >= self._end:
            raise Impatient
        self.made += 1


class Impatient(Exception):
    """The tests, or the time for them, are used up."""


def shrink(units: Sequence[Unit], breaks: Breaks[Unit], patience: Patience) -> Shrunk[Unit]:
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
        patience: budget of tests and time.

    Returns:
        A 1-minimal part, unless the patience ran out.
    """
    best = tuple(units)
    try:
        for fewer in _smaller_parts(best, breaks, patience):
            best = fewer
    except Impatient:
        return Shrunk(best, minimal=False)
    return Shrunk(best, minimal=True)


def _smaller_parts(
    units: tuple[Unit, ...], breaks: Breaks[Unit], patience: Patience
) -> Iterator[tuple[Unit, ...]]:
    def test(part: tuple[Unit, ...]) -> bool:
        patience.spend()
        return breaks(part)

    if not units:
        return
    if test(()):
        yield ()
        return
    for fewer in _prefixes(units, test):
        units = fewer
        yield units
    size = len(units) // 2
    while size > 1:
        for fewer in _without_blocks(units, size, test):
            units = fewer
            yield units
        size //= 2
    yield from _without_single_units(units, test)


def _prefixes(
    units: tuple[Unit, ...], test: Callable[[tuple[Unit, ...]], bool]
) -> Iterator[tuple[Unit, ...]]:
    """Breaking prefixes, ever shorter; the empty one does not break."""
    not_enough, enough = 0, len(units)
    while enough - not_enough > 1:
        middle = (enough + not_enough) // 2
        if test(units[:middle]):
            enough = middle
            yield units[:enough]
        else:
            not_enough = middle


def _without_blocks(
    units: tuple[Unit, ...], size: int, test: Callable[[tuple[Unit, ...]], bool]
) -> Iterator[tuple[Unit, ...]]:
    end = len(units)
    while end > 0:
        start = max(0, end - size)
        rest = units[:start] + units[end:]
        if test(rest):
            units = rest
            yield units
        end = start


def _without_single_units(
    units: tuple[Unit, ...], test: Callable[[tuple[Unit, ...]], bool]
) -> Iterator[tuple[Unit, ...]]:
    """Leave out single units, until each has been tried since the last one was left out."""
    place, to_try = len(units), len(units)
    while to_try > 0:
        place = (place or len(units)) - 1
        rest = units[:place] + units[place + 1 :]
        if rest and test(rest):
            units, to_try = rest, len(rest)
            yield units
        else:
            to_try -= 1
