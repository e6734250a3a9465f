"""Dividing the cases of a run into shards for several machines. Imports neither torch nor numpy."""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case
from grb_check.errors import UsageError

MOST_SHARDS: Final = 10_000


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
    shares = cut([case.id for case in cases], seconds, shard.count)
    mine = set(shares[shard.index - 1])
    return RunCases(
        cases=tuple(cases),
        part=tuple(case for case in cases if case.id in mine),
        shard=shard,
        digest=hashlib.sha256(json.dumps(shares).encode()).hexdigest(),
    )


def cut(
    ids: Iterable[str], seconds: Mapping[str, float], count: int
) -> tuple[tuple[str, ...], ...]:
    """Divide cases into shares that take about the same time.

    The longest first, each to the share with the least so far (R. L. Graham 1969, "Bounds on
    Multiprocessing Timing Anomalies": no share is longer than 4/3 - 1/(3 count) of the optimum).
    The result depends on the arguments only, neither on the order of `ids` nor on the machine.

    Args:
        ids: of the cases, each once.
        seconds: durations by id; a case without one is given the median of the others, and if
            no case has one, all are equal.
        count: number of shares.

    Returns:
        The ids of each share, sorted; shares may be empty if there are few cases.
    """
    ids = sorted(ids)
    known = {
        identifier: seconds[identifier]
        for identifier in ids
        if 0.0 <= seconds.get(identifier, -1.0) < math.inf
    }
    usual = statistics.median(known.values()) if known else 1.0
    # Whole milliseconds: sums of floats could depend on their order.
    times = {identifier: round(1000 * known.get(identifier, usual)) for identifier in ids}
    loads, shares = [0] * count, [list[str]() for _ in range(count)]
    for identifier in sorted(ids, key=lambda name: (-times[name], name)):
        least = min(range(count), key=lambda share: (loads[share], len(shares[share]), share))
        loads[least] += times[identifier]
        shares[least].append(identifier)
    return tuple(tuple(sorted(share)) for share in shares)
