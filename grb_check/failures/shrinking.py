"""Delta debugging: a small part of what breaks something, that still breaks it. Knows no graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Unit = TypeVar("Unit")
Breaks = Callable[[Sequence[Unit]], bool]


@dataclass(frozen=True)
class Shrunk(Generic[Unit]):
    """What is left.

    Attributes:
        units: which break it, in their order.
        minimal: whether it is known that none of them can be left out alone.
    """

    units: tuple[Unit, ...]
    minimal: bool


@dataclass
class Patience:
    """How many tests may be made, and for how long; counts them.

    One may serve several searches, which then share it.

    Args:
        tests: at most.
        seconds: from its making on, at most; the test that is running is not stopped.
        clock: in seconds.
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
            Impatient: there may be no more.
        """
        if self.made >= self.tests or self.clock() >= self._end:
            raise Impatient
        self.made += 1


class Impatient(Exception):
    """The tests, or the time for them, are spent."""


def shrink(units: Sequence[Unit], breaks: Breaks[Unit], patience: Patience) -> Shrunk[Unit]:
    """A small part of the units that still breaks.

    First the shortest breaking beginning, by bisection: good where the units that matter most come
    first. Then blocks are left out from its end on, each half as long as those before, and at last
    single units until none can be left out: `Simplifying and Isolating Failure-Inducing Input
    <https://doi.org/10.1109/32.988498>`_ (Zeller and Hildebrandt 2002, minimising delta debugging
    without its subsets, which bisection replaces). Nothing is assumed of `breaks`: every step is
    tested, so that the result breaks whatever is left out between.

    Args:
        units: that break together, which the caller has seen.
        breaks: whether some of them, in their order, do.
        patience: what is left of it is spent here.

    Returns:
        1-minimal where patience lasted.
    """
    best = tuple(units)
    try:
        for fewer in _ever_fewer(best, breaks, patience):
            best = fewer
    except Impatient:
        return Shrunk(best, minimal=False)
    return Shrunk(best, minimal=True)


def _ever_fewer(
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
    for fewer in _beginnings(units, test):
        units = fewer
        yield units
    size = len(units) // 2
    while size > 1:
        for fewer in _without_blocks(units, size, test):
            units = fewer
            yield units
        size //= 2
    yield from _without_single_ones(units, test)


def _beginnings(
    units: tuple[Unit, ...], test: Callable[[tuple[Unit, ...]], bool]
) -> Iterator[tuple[Unit, ...]]:
    """Beginnings that break, ever shorter; the empty one does not."""
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


def _without_single_ones(
    units: tuple[Unit, ...], test: Callable[[tuple[Unit, ...]], bool]
) -> Iterator[tuple[Unit, ...]]:
    """Round and round, until each one has been tried since the last one was left out."""
    place, to_try = len(units), len(units)
    while to_try > 0:
        place = (place or len(units)) - 1
        rest = units[:place] + units[place + 1 :]
        if rest and test(rest):
            units, to_try = rest, len(rest)
            yield units
        else:
            to_try -= 1
