"""Dividing a run into tasks. Loads no torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.attacks.names import WORST, base_name
from grb_check.cases.case import Case

# A task may take this share of what each worker has to do: with smaller ones more victims are
# trained twice, with larger ones workers wait for the last task: `python -m benchmarks.scheduling`.
LARGEST: Final = 0.25


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
            all cases of that victim, as it is for small attacks.
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
    seconds = _seconds(repeats, durations)
    victims = _by_victim(repeats)
    training = {
        name: durations.training.get(name, sum(seconds[case] for case in cases))
        for (name, _), cases in victims.items()
    }
    total = sum(
        training[name] + sum(seconds[case] for case in cases)
        for (name, _), cases in victims.items()
    )
    limit = LARGEST * total / workers if workers > 1 else math.inf
    parts = []
    for (name, seed), cases in victims.items():
        for share in _shares(cases, seconds, limit, training[name]):
            spent = training[name] + sum(seconds[case] for case in share)
            parts.append(Part(cases=tuple(share), seed=seed, seconds=spent))
    return sorted(parts, key=lambda part: -round(part.seconds, 3))


def _seconds(cases: Mapping[Case, int], durations: Durations) -> dict[Case, float]:
    known = {case: durations.cases[case.id] for case in cases if case.id in durations.cases}
    usual = statistics.median(known.values()) if known else 1.0
    return {case: known.get(case, usual) for case in cases}


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

    `worst` stays with the attacks that it is the strongest of, which are made once for both. A
    share takes at least as long as the training that it costs.
    """
    groups: dict[object, list[Case]] = {}
    together = {
        (case.difficulty, case.scenario) for case in cases if base_name(case.attack) == WORST
    }
    for case in cases:
        cell = (case.difficulty, case.scenario)
        groups.setdefault(cell if cell in together else case, []).append(case)
    total = sum(seconds[case] for case in cases)
    largest = max(limit - training, training, limit / 2)
    wanted = math.ceil(total / largest) if total > 0.0 else 1
    count = max(1, min(wanted, len(groups)))
    shares: list[list[Case]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for group in sorted(groups.values(), key=lambda each: -sum(seconds[case] for case in each)):
        least = loads.index(min(loads))
        shares[least] += group
        loads[least] += sum(seconds[case] for case in group)
    return [sorted(share, key=cases.index) for share in shares]
