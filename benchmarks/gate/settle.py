"""Whether a run of as many repeats as a report suggests decides what was inconclusive.

    python -m benchmarks.gate settle cora.npz --repeats 5 10 --points 0 3 5

The suggestion is made for a probability of 80 %, from the mean and the spread of an inconclusive
run. A fresh run has that number of repeats. Models of the pool (see `pool`) may be drawn more than
once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.gate.planted import Plant, Pool, compared, draw, read
from benchmarks.rows import Row, markdown

MOST = 200  # repeats of a fresh run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`")
    parser.add_argument("--points", type=float, nargs="+", default=[0.0, 3.0, 5.0])
    parser.add_argument("--repeats", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--runs", type=int, default=300)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each planted loss and number of repeats."""
    pool = _larger(read(options.pool))
    for points in options.points:
        for repeats in options.repeats:
            rng = np.random.default_rng([repeats, round(100 * points)])
            reported, decided = 0, 0
            for _ in range(options.runs):
                settled = _settled(pool, Plant(points=points), repeats, rng)
                reported, decided = reported + len(settled), decided + sum(settled)
            yield {
                "pool": options.pool.stem,
                "planted": f"{points:g} points",
                "repeats": repeats,
                "suggestions": reported,
                "decided by a fresh run": f"{decided / reported:.0%}" if reported else "-",
            }


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, list(rows[0]))


def _larger(pool: Pool) -> Pool:
    """Every model so many times that any number of repeats can be drawn."""
    times = {name: -(-4 * MOST // len(bits)) for name, bits in pool.after.items()}
    before = {name: np.tile(pool.before[name], (n, 1, 1)) for name, n in times.items()}
    after = {name: np.tile(pool.after[name], (n, 1, 1, 1)) for name, n in times.items()}
    return Pool(pool.cases, before, after)


def _settled(pool: Pool, plant: Plant, repeats: int, rng: np.random.Generator) -> list[bool]:
    """Whether one suggestion of a run decides; empty without any of at most `MOST` repeats."""
    first = compared(draw(pool, plant, repeats, rng)).cases
    suggested = [
        (case_index, comparison.repeats_needed or 0) for case_index, comparison in enumerate(first)
    ]
    usable = [(case_index, needed) for case_index, needed in suggested if repeats < needed <= MOST]
    if not usable:
        return []
    chosen_index, needed = usable[rng.integers(len(usable))]
    fresh = compared(draw(pool, plant, needed, rng)).cases[chosen_index]
    return [fresh.result != "inconclusive"]
