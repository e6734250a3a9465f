"""Dividing a run into tasks. Loads no torch."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case

# Parts may take these shares of what each worker has to do: with smaller ones more victims are
# trained twice, with larger ones workers wait for the last part. The plan that ends first counts.
LARGEST: Final = (math.inf, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
TRAINING: Final = 10  # cases that a training is taken to be as long as, if it is unknown


@dataclass(frozen=True, kw_only=True)
class Part:
    """Cases of one repeat of a model on a dataset, and how long they may take.

    Attributes:
        cases: of the same model and dataset.
        seed: of the repeat.
        seconds: expected duration, in any unit if durations are unknown.
    """

    cases: tuple[Case, ...]
    seed: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Expected seconds of one repeat.

    Attributes:
        cases: of cases by id, without training; those that are missing are given the median.
        training: of a victim, by `[model@]dataset`; one that is missing is taken to be as long as
            `TRAINING` cases.
    """

    cases: Mapping[str, float]
    training: Mapping[str, float]


NO_DURATIONS: Final = Durations(cases={}, training={})


def plan(repeats: Mapping[Case, int], durations: Durations, workers: int) -> list[Part]:
    """Divide a run into parts, each for one victim, the longest first.

    One part for each victim, so that each is trained once; a victim whose cases would keep one
    worker busy while others have nothing left to do is trained several times instead.

    Args:
        repeats: number of repeats of each case.
        durations: expected.
        workers: that may run parts at the same time.

    Returns:
        Parts that hold each case and repeat once. With equal durations they are in the order of the
        cases, and of the repeats.
    """
    usual = _usual(repeats, durations)
    seconds = {case: durations.cases.get(case.id, usual) for case in repeats}
    victims = _by_victim(repeats)
    training = {name: durations.training.get(name, TRAINING * usual) for name, _ in victims}
    total = sum(training[name] + _sum(cases, seconds) for (name, _), cases in victims.items())

    def divided(share: float) -> list[Part]:
        limit = share * total / workers if workers > 1 else math.inf
        parts = [
            Part(cases=tuple(each), seed=seed, seconds=training[name] + _sum(each, seconds))
            for (name, seed), cases in victims.items()
            for each in _shares(cases, seconds, limit, training[name])
        ]
        return sorted(parts, key=lambda part: -round(part.seconds, 3))

    def length(parts: list[Part]) -> float:
        return round(end([part.seconds for part in parts], workers), 3)

    return min(map(divided, LARGEST), key=length)


def end(seconds: Sequence[float], workers: int) -> float:
    """Return when the last part ends, if each worker takes the next one when it is free.

    Args:
        seconds: that the parts take, in the order in which they are begun.
        workers: number of them.
    """
    free = [0.0] * workers
    for each in seconds:
        heapq.heappush(free, heapq.heappop(free) + each)
    return max(free)


def _sum(cases: Sequence[Case], seconds: Mapping[Case, float]) -> float:
    return sum(seconds[case] for case in cases)


def _usual(cases: Iterable[Case], durations: Durations) -> float:
    """The median of the known durations of these cases."""
    known = [durations.cases[case.id] for case in cases if case.id in durations.cases]
    return statistics.median(known) if known else 1.0


def _by_victim(repeats: Mapping[Case, int]) -> dict[tuple[str, int], list[Case]]:
    """Cases of each victim: by model and dataset, and seed."""
    found: dict[tuple[str, int], list[Case]] = {}
    for seed in range(max(repeats.values(), default=0)):
        for case, count in repeats.items():
            if seed < count:
                found.setdefault((victim_name(case), seed), []).append(case)
    return found


def victim_name(case: Case) -> str:
    """Return `[model@]dataset` of a case."""
    return f"{case.model}@{case.dataset}" if case.model else case.dataset


def _shares(
    cases: Sequence[Case], seconds: Mapping[Case, float], limit: float, training: float
) -> list[list[Case]]:
    """Divide the cases of a victim so that none of the shares is much above the limit.

    A share takes at least as long as the training that it costs.
    """
    total = _sum(cases, seconds)
    largest = max(limit - training, training, limit / 2)
    wanted = math.ceil(total / largest) if total > 0.0 else 1
    count = max(1, min(wanted, len(cases)))
    shares: list[list[Case]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for case in sorted(cases, key=lambda each: -seconds[each]):
        least = loads.index(min(loads))
        shares[least].append(case)
        loads[least] += seconds[case]
    return [sorted(share, key=cases.index) for share in shares]
