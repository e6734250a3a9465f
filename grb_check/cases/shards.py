"""Dividing the cases of a run into shards for several machines. Imports neither torch nor numpy."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.selection import by_model_and_dataset
from grb_check.errors import UsageError

MOST_SHARDS: Final = 10_000
LONGEST: Final = 1e9  # seconds that a case may have taken; others are no durations
TRAINING: Final = 10  # cases that a training is taken to be as long as


@dataclass(frozen=True)
class Shard:
    """Shard `index` (from 1) of `count`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True, kw_only=True)
class RunCases:
    """The cases of the whole run, and those of this shard.

    Attributes:
        cases: of the whole run.
        part: cases that run here; all of them if the run is not divided.
        shard: this shard; None if the run is not divided.
        digest: of the partition, equal for runs that were divided alike; empty if the run is not
            divided.
        deselected: ids of own cases that pytest then deselected, as with `-k`.
    """

    cases: tuple[Case, ...] = ()
    part: tuple[Case, ...] = ()
    shard: Shard | None = None
    digest: str = ""
    deselected: tuple[str, ...] = ()


def parse_shard(text: str) -> Shard:
    """Read `I/N`.

    Raises:
        UsageError: the text has another form, I is not from 1 to N, or N is above `MOST_SHARDS`.
    """
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_SHARDS:
        raise UsageError(
            f"--grb-shard {text!r} is not a shard; give I/N with I from 1 to N and N up to "
            f"{MOST_SHARDS:,}, such as 2/4"
        )
    return Shard(int(match[1]), int(match[2]))


def divide(cases: Sequence[Case], shard: Shard | None, seconds: Mapping[str, float]) -> RunCases:
    """Return the cases that this shard of a run has to run.

    Args:
        cases: of the whole run; those of a shard keep their order.
        shard: this shard; None for the whole run.
        seconds: durations of cases by id; see `cut`.
    """
    if shard is None:
        return RunCases(cases=tuple(cases), part=tuple(cases))
    shares = cut(cases, seconds, shard.count)
    mine = set(shares[shard.index - 1])
    return RunCases(
        cases=tuple(cases),
        part=tuple(case for case in cases if case.id in mine),
        shard=shard,
        digest=hashlib.sha256(json.dumps(shares).encode()).hexdigest(),
    )


def cut(
    cases: Iterable[Case], seconds: Mapping[str, float], count: int
) -> tuple[tuple[str, ...], ...]:
    """Divide cases into shares that take about the same time.

    Each share trains every model that it has cases of, so those of a model on a dataset stay
    together: a share goes on with the next model when it has taken the last case of one, and all
    shares together train at most `count - 1` models more than one run does. The limit of a share's
    time is the least, by bisection, under which `count` shares hold all cases, each taken by the
    first share that it fits into, the longest first (MULTIFIT of Coffman, Garey and Johnson 1978,
    "An Application of Bin-Packing to Multiprocessor Scheduling", with a training before the first
    case of a model). The result depends on the arguments only, neither on the order of `cases` nor
    on the machine.

    Args:
        cases: each once.
        seconds: durations by id, without training; a case without one is given the median of the
            others, and if no case has one, all are equal.
        count: number of shares.

    Returns:
        The ids of each share, sorted; the last ones are empty if fewer take no longer.
    """
    cases = sorted(cases, key=lambda case: case.id)
    given = {case: seconds.get(case.id, -1.0) for case in cases}
    known = {case: duration for case, duration in given.items() if 0.0 <= duration < LONGEST}
    usual = statistics.median(known.values()) if known else 1.0
    # Whole milliseconds: sums of floats could depend on their order.
    times = {case: max(1, round(1000 * known.get(case, usual))) for case in cases}
    training = TRAINING * max(1, round(1000 * usual))
    groups = [
        sorted(group, key=lambda case: (-times[case], case.id))
        for group in by_model_and_dataset(cases)
    ]
    least = training + max(times.values(), default=0)  # a case alone
    most = sum(times.values()) + len(groups) * training  # all in one share
    while least < most:
        limit = (least + most) // 2
        if len(_filled(groups, times, training, limit)) <= count:
            most = limit
        else:
            least = limit + 1
    shares = _filled(groups, times, training, most)
    shares += [[] for _ in range(count - len(shares))]
    return tuple(tuple(sorted(case.id for case in share)) for share in shares)


def _filled(
    groups: Sequence[Sequence[Case]], times: Mapping[Case, int], training: int, limit: int
) -> list[list[Case]]:
    """Fill one share after another up to the limit, which a training and any one case keep to."""
    shares: list[list[Case]] = [[]]
    load = 0
    for group in groups:
        left = list(group)
        while left:
            trained, rest = load + training, []
            for case in left:
                if trained + times[case] <= limit:
                    shares[-1].append(case)
                    trained += times[case]
                else:
                    rest.append(case)
            if len(rest) < len(left):
                load = trained
            left = rest
            if left:
                shares.append([])
                load = 0
    return shares
