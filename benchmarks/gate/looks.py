"""Runs against a base, in further repeats as long as they are in doubt: alarms and what they cost.

    python -m benchmarks.gate looks cora.npz --first 5 --runs 200

Simulated runs as of `simulate`, with both sides drawn anew; each case, and all of them together,
are looked at as in a run with `--grb-base`. Repeats are the mean over the cases of a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from benchmarks.gate.planted import PLANTS, Plant, draw, mean_loss, read
from benchmarks.gate.simulation import interval_text
from benchmarks.rows import Row, markdown
from grb_check.cases.verdicts import Comparison, ComparisonResult
from grb_check.gate.baselines.baseline import ALPHA, CLEAN_SHARE, JOINT_SHARE, LOSS_MARGIN
from grb_check.gate.baselines.compare import compare, compare_jointly
from grb_check.gate.baselines.looks import MOST, OF_A_CASE, OF_ALL_CASES, ONLY, Look, decided, looks
from grb_check.gate.baselines.pairs import Pair

SHOWN: Final = {
    **{name: PLANTS[name] for name in ("nothing", "2-point loss", "3-point loss", "5-point loss")},
    "7-point loss": Plant(points=7.0),
    "5 points in one case": PLANTS["5 points in one case"],
    "layer norm removed": PLANTS["layer norm removed"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`, of at least 40 seeds")
    parser.add_argument("--first", type=int, nargs="+", default=[3, 5], help="repeats at first")
    parser.add_argument("--runs", type=int, default=200, help="for each row")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each planted loss and number of repeats of the first look."""
    pool = read(options.pool)
    for name, plant in SHOWN.items():
        if not {plant.before, plant.after} <= set(pool.after):
            continue
        for first in options.first:
            rng = np.random.default_rng([first, *name.encode()])
            ended = [_ended(draw(pool, plant, MOST, rng), first) for _ in range(options.runs)]
            red = sum(run.red for run in ended)
            at_first = sum(run.red_at_first for run in ended)
            yield {
                "pool": options.pool.stem,
                "planted": name,
                "mean loss": round(mean_loss(pool, plant), 1),
                "first": first,
                "red without further looks": f"{at_first / options.runs:.1%}",
                "red": f"{red / options.runs:.1%} ({interval_text(red, options.runs)})",
                "repeats": round(fmean(run.repeats for run in ended), 1),
                "undecided cases": round(fmean(run.undecided for run in ended), 1),
            }


def table(rows: Sequence[Row]) -> str:
    """Return alarms in % of the runs, with 95 % intervals."""
    return markdown(rows, list(rows[0]))


@dataclass(frozen=True, kw_only=True)
class _Ended:
    red: bool
    red_at_first: bool
    repeats: float
    undecided: int


def _ended(pairs: Sequence[Pair], first: int) -> _Ended:
    of_case = ALPHA * (1.0 - JOINT_SHARE) / len(pairs)
    of_all = ALPHA * JOINT_SHARE * (1.0 - CLEAN_SHARE)

    def together(look: Look) -> Comparison:
        seen = [pair.of_first(look.repeats) for pair in pairs]
        result = compare_jointly(seen, LOSS_MARGIN, of_all, look.share)
        assert result is not None
        return result

    def alone(pair: Pair) -> Callable[[Look], Comparison]:
        return lambda look: compare(pair.of_first(look.repeats), LOSS_MARGIN, of_case, look.share)

    only = Look(first, ONLY)
    cases = [_looked(alone(pair), first, OF_A_CASE) for pair in pairs]
    most, joint = _looked(together, first, OF_ALL_CASES)
    results = [result for _, result in cases]
    return _Ended(
        red="fail" in (joint, *results),
        red_at_first="fail" in [ask(only).result for ask in (together, *map(alone, pairs))],
        repeats=fmean(max(last, most) for last, _ in cases),
        undecided=results.count("inconclusive"),
    )


def _looked(
    compare_at: Callable[[Look], Comparison], first: int, doubts: Collection[ComparisonResult]
) -> tuple[int, ComparisonResult]:
    """The repeats of the last look, and its result."""
    asked = []

    def noted(look: Look) -> Comparison:
        asked.append(look.repeats)
        return compare_at(look)

    result = decided(noted, looks(first), doubts).result
    return asked[-1], result
