"""How often the 95 % interval of the mean drop has the mean of all trainings in it.

    python -m benchmarks.gate coverage cora.npz --repeats 1 3 10

A run draws repeats of a pool (see `pool`): other training seeds, and other attack seeds as long as
there are any.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.gate.planted import rounds_of
from benchmarks.rows import Row, markdown
from grb_check.cases.outcomes import Scores
from grb_check.gate.drop_interval import drop_interval


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`")
    parser.add_argument("--repeats", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--runs", type=int, default=300)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each variant of the pool: coverage over its cases, and the worst case."""
    with np.load(options.pool) as arrays:
        for name in (key.removeprefix("after/") for key in arrays if key.startswith("after/")):
            before, after = (arrays[f"{side}/{name}"] for side in ("before", "after"))
            row: Row = {"pool": options.pool.stem, "variant": name}
            for n in options.repeats:
                covered = np.array(
                    [
                        _coverage(before[:, case], after[:, :, case], n, options.runs)
                        for case in range(after.shape[2])
                    ]
                )
                word = "1 repeat" if n == 1 else f"{n} repeats"
                row[word] = f"{covered.mean():.1%}, at worst {covered.min():.1%}"
            yield row


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, list(rows[0]))


def _coverage(before: np.ndarray, after: np.ndarray, repeats: int, runs: int) -> float:
    """The share of runs whose interval has the mean drop in it."""
    rng = np.random.default_rng(repeats)
    targets = int((before[0] >= 0).sum())
    clean = (before == 1).sum(axis=-1) / targets  # [seeds]
    attacked = (after == 1).sum(axis=-1) / targets  # [seeds, attacks]
    true, hits = float((1 - attacked / clean[:, None]).mean()), 0
    for _ in range(runs):
        seeds = rng.permutation(len(clean))[:repeats]
        attacks = rounds_of(attacked.shape[1], repeats, rng)
        sides = [
            Scores(
                clean=float(clean[seed]),
                attacked=float(attacked[seed, attack]),
                right_before=b"",
                right_after=b"",
            )
            for seed, attack in zip(seeds, attacks, strict=True)
        ]
        (low, high), _ = drop_interval(sides, targets)
        hits += low <= true <= high
    return hits / runs
