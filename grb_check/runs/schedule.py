"""The division of a run into parts, each for one victim, the longest first."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.shards import TRAINING

# Parts may take these shares of what each worker has to do: with smaller ones more victims are
# trained twice, with larger ones workers wait for the last part. The plan that ends first counts.
LARGEST: Final = (math.inf, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)


@dataclass(frozen=True, kw_only=True)
class TimedPart:
    """Cases of one repeat of a model on a dataset, and how long they may take.

    Attributes:
        cases: of the same model and dataset.
        seed: of the repeat.
        seconds: expected duration, in any unit if durations are unknown.
    """

    cases: tuple[Case, ...]
    seed: int
    seconds: float


def timed_parts(
    repeats: Mapping[Case, int], seconds: Mapping[str, float], workers: int
) -> list[TimedPart]:
    """Divide a run into parts, each for one victim, the longest first.

    One part for each victim, so that each is trained once; a victim whose cases would keep one
    worker busy while others have nothing left to do is trained several times instead.

    Args:
        repeats: number of repeats of each case.
        seconds: expected for one repeat of a case, without training, by id; those that are missing
            are given the median.
        workers: that may run parts at the same time.

    Returns:
        Parts that hold each case and repeat once. With equal durations they are in the order of the
        cases, and of the repeats.
    """
    known = [seconds[case.id] for case in repeats if case.id in seconds]
    usual = statistics.median(known) if known else 1.0
    expected = {case: seconds.get(case.id, usual) for case in repeats}
    victims, training = _by_victim(repeats), TRAINING * usual
    total = sum(training + _sum(cases, expected) for _, cases in victims)

    def divided(share: float) -> list[TimedPart]:
        limit = share * total / workers if workers > 1 else math.inf
        parts = [
            TimedPart(
                cases=tuple(part_cases), seed=seed, seconds=training + _sum(part_cases, expected)
            )
            for seed, cases in victims
            for part_cases in _shares(cases, expected, limit, training)
        ]
        return sorted(parts, key=lambda part: -round(part.seconds, 3))

    def length(parts: list[TimedPart]) -> float:
        return round(end([part.seconds for part in parts], workers), 3)

    return min(map(divided, LARGEST), key=length)


def end(seconds: Sequence[float], workers: int) -> float:
    """Return when the last part ends, if each worker takes the next one when it is free.

    Args:
        seconds: that the parts take, in the order in which they are begun.
        workers: number of them.
    """
    free = [0.0] * workers
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def _sum(cases: Sequence[Case], seconds: Mapping[Case, float]) -> float:
    return sum(seconds[case] for case in cases)


def _by_victim(repeats: Mapping[Case, int]) -> list[tuple[int, list[Case]]]:
    """The seed of each victim, and its cases."""
    result: dict[tuple[str, str, int], list[Case]] = {}
    for seed in range(max(repeats.values(), default=0)):
        for case, count in repeats.items():
            if seed < count:
                result.setdefault((case.model, case.dataset, seed), []).append(case)
    return [(seed, cases) for (_, _, seed), cases in result.items()]


def _shares(
    cases: Sequence[Case], seconds: Mapping[Case, float], limit: float, training: float
) -> list[list[Case]]:
    """Divide the cases of a victim so that none of the shares is much above the limit.

    A share takes at least as long as the training that it costs.
    """
    total = _sum(cases, seconds)
    largest = max(limit - training, training, limit / 2)
    needed = math.ceil(total / largest) if total > 0.0 else 1
    count = max(1, min(needed, len(cases)))
    shares: list[list[Case]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for case in sorted(cases, key=lambda case: -seconds[case]):
        least = loads.index(min(loads))
        shares[least].append(case)
        loads[least] += seconds[case]
    return [sorted(share, key=cases.index) for share in shares]
