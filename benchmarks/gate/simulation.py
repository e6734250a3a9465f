"""Rates of false alarms and of detected planted losses.

    python -m benchmarks.gate simulate cora.npz --repeats 3 5 10 15 20 --runs 2000

Each simulated run draws models of a pool (see `pool`): a baseline and a new run of other
training seeds, repeat by repeat under the same perturbation, and asks the product's own gate. A run
is an alarm where any case fails, or the tests at its end do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks.gate.planted import PLANTS, Pool, compared, draw, mean_loss, read
from benchmarks.rows import Row, markdown

POOLS = 20  # drawn from the pool, to show what its size leaves open
RESAMPLED = "nothing"  # the plant of these


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`")
    parser.add_argument("--repeats", type=int, nargs="+", default=[3, 5, 10, 15, 20])
    parser.add_argument("--runs", type=int, default=1000, help="for each row and number of repeats")
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=list(PLANTS))


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each planted loss, and one for pools that are drawn from this one."""
    pool = read(options.pool)
    head = {"pool": options.pool.stem, "cases": len(pool.cases)}
    for name in options.plants:
        plant = PLANTS[name]
        if not {plant.before, plant.after} <= set(pool.after):
            continue
        shares = {f"{n} repeats": alarms(pool, name, n, options.runs) for n in options.repeats}
        yield {
            **head,
            "planted": name,
            "mean loss": round(mean_loss(pool, plant), 1),
            "runs": options.runs,
            **{
                n: f"{k / options.runs:.1%} ({interval_text(k, options.runs)})"
                for n, k in shares.items()
            },
        }
        if name == RESAMPLED:
            yield {**head, **_resampled(pool, options)}


def table(rows: Sequence[Row]) -> str:
    """Return alarms in % of the runs, with 95 % intervals."""
    return markdown(rows, list(rows[0]))


def alarms(pool: Pool, name: str, repeats: int, runs: int) -> int:
    """Return in how many of these runs the gate fails."""
    plant = PLANTS[name]
    rng = np.random.default_rng([repeats, *name.encode()])
    return sum(compared(draw(pool, plant, repeats, rng)).alarm for _ in range(runs))


def _resampled(pool: Pool, options: argparse.Namespace) -> Row:
    """Return the alarms without a loss on pools that are drawn from this one."""
    resamples = max(options.runs // POOLS, 50)
    results = {}
    for n in options.repeats:
        rng = np.random.default_rng(n)
        counts = [alarms(pool.resampled(rng), RESAMPLED, n, resamples) for _ in range(POOLS)]
        results[f"{n} repeats"] = f"{sum(counts)} alarms, at most {max(counts)} in {resamples}"
    return {"planted": f"nothing, {POOLS} resampled pools", "runs": POOLS * resamples, **results}


def interval_text(hits: int, runs: int) -> str:
    interval = binomtest(hits, runs).proportion_ci(0.95)
    return f"{interval.low:.1%} .. {interval.high:.1%}"
