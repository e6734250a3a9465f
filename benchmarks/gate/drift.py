"""Histories of commits that each lose a little, with the baseline updated after each.

    python -m benchmarks.gate drift cora.npz --points 1 --commits 5 --histories 200

Each commit trains other models of a pool (see `pool`) than the pin has, under the same
perturbations. It is red through the baseline or through the pin; a red commit is accepted as well,
so that both are seen to the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.gate.planted import Pool, case_of, entry, read, rounds_of, worse
from benchmarks.rows import Row, markdown
from grb_check.cases.case import Case
from grb_check.gate.baselines.baseline import ALPHA, JOINT_SHARE, LOSS_MARGIN
from grb_check.gate.baselines.compare import compare
from grb_check.gate.baselines.files import BaselineCase, BaselineFile, Pair
from grb_check.gate.baselines.joint import compare_groups, compare_with_pin, groups_of, updated

VARIANT = "gcn"
REFERENCES = ("baseline", "pin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`")
    parser.add_argument("--points", type=float, nargs="+", default=[0.0, 1.0], help="a commit")
    parser.add_argument("--commits", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--histories", type=int, default=200)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each loss a commit: histories that are red by each commit."""
    pool = read(options.pool)
    for points in options.points:
        rng = np.random.default_rng([options.repeats, round(1000 * points)])
        found = [
            first_red(pool, points, options.commits, options.repeats, rng)
            for _ in range(options.histories)
        ]
        for reference in REFERENCES:
            firsts = [each[reference] for each in found]
            yield {
                "pool": options.pool.stem,
                "points a commit": points,
                "histories": options.histories,
                "red through": reference,
                **{
                    f"by commit {commit}": sum(
                        first is not None and first <= commit for first in firsts
                    )
                    for commit in range(1, options.commits + 1)
                },
            }


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, list(rows[0]))


def first_red(
    pool: Pool, points: float, commits: int, repeats: int, rng: np.random.Generator
) -> dict[str, int | None]:
    """Return the first commit of a history that is red, through each reference."""
    bits = pool.after[VARIANT]
    seeds = rng.permutation(len(bits))
    pinned, others = seeds[:repeats], seeds[repeats:]
    attack = rounds_of(bits.shape[1], repeats, rng)

    def measured(chosen: np.ndarray, commit: int) -> dict[Case, BaselineCase]:
        found = {}
        for place, name in enumerate(pool.cases):
            right = worse(bits[chosen, attack, place], points * commit, rng)
            found[case_of(name)] = entry(right, f"{commit}-", chosen)
        return found

    saved, _ = updated(BaselineFile(), _by_id(measured(pinned, 0)), {})
    first: dict[str, int | None] = dict.fromkeys(REFERENCES)
    for commit in range(1, commits + 1):
        now = measured(rng.choice(others, repeats, replace=False), commit)
        for reference, red in _red(saved, now).items():
            if red and first[reference] is None:
                first[reference] = commit
        saved, _ = updated(saved, _by_id(now), {})
    return first


def _red(saved: BaselineFile, now: dict[Case, BaselineCase]) -> dict[str, bool]:
    """Whether the run fails, through each reference."""
    alpha = ALPHA * (1.0 - JOINT_SHARE) / len(now)
    pairs = [Pair(case, saved.entries[case.id], each) for case, each in now.items()]
    single = [compare(pair, LOSS_MARGIN, alpha) for pair in pairs]
    groups = groups_of(now)
    joint = compare_groups(
        saved.entries, now, groups, margin=LOSS_MARGIN, alpha=ALPHA * JOINT_SHARE
    )
    pin = compare_with_pin(saved, now, now, LOSS_MARGIN)
    against = [*single, *(each.comparison for each in joint)]
    return {
        "baseline": any(each.result == "fail" for each in against),
        "pin": any(each.comparison.result == "fail" for each in pin),
    }


def _by_id(entries: dict[Case, BaselineCase]) -> dict[str, BaselineCase]:
    return {case.id: each for case, each in entries.items()}
