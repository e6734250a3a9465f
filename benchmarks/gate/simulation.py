"""Rates of false alarms and of detected planted losses.

    python -m benchmarks.gate simulate cora.npz --repeats 3 5 10 15 20 --runs 2000

Each simulated run draws models of a pool (see `pool`): a baseline and a new run of other
training seeds, repeat by repeat under the same perturbation, and asks the product's own gate. A run
is an alarm where any case fails, or all of them together do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from benchmarks.rows import Row, markdown
from grb_check.gate.baselines.baseline import ALPHA, JOINT_SHARE, LOSS_MARGIN
from grb_check.gate.baselines.compare import Pair, compare, compare_jointly
from grb_check.gate.baselines.files import Entry

Bits = NDArray[np.int8]

POOLS: Final = 20  # drawn from the pool, to show what its size leaves open
# Name: variant of the baseline, variant of the new run, points that are lost besides.
PLANTS: Final[dict[str, tuple[str, str, float]]] = {
    "nothing": ("gcn", "gcn", 0.0),
    "2-point loss": ("gcn", "gcn", 2.0),
    "3-point loss": ("gcn", "gcn", 3.0),
    "5-point loss": ("gcn", "gcn", 5.0),
    "dropout off": ("gcn", "gcn_no_dropout", 0.0),
    "dropout off, with layer norm": ("gcn_ln", "gcn_ln_no_dropout", 0.0),
    "layer norm removed": ("gcn_ln", "gcn", 0.0),
    "adversarial training removed": ("gcn_at", "gcn", 0.0),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`")
    parser.add_argument("--repeats", type=int, nargs="+", default=[3, 5, 10, 15, 20])
    parser.add_argument("--runs", type=int, default=1000, help="for each row and number of repeats")
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=list(PLANTS))


@dataclass(frozen=True)
class Pool:
    """Whether targets are right: int8 [seeds, attacks, cases, targets], -1 for none."""

    cases: tuple[str, ...]
    after: dict[str, Bits]

    def resampled(self, rng: np.random.Generator) -> Pool:
        """Return a pool of as many models, drawn with replacement."""
        drawn = {
            name: bits[rng.integers(len(bits), size=len(bits))] for name, bits in self.after.items()
        }
        return Pool(self.cases, drawn)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each planted loss, and one for pools that are drawn from this one."""
    pool = read(options.pool)
    head = {"pool": options.pool.stem, "cases": len(pool.cases), "trained": _sizes(pool)}
    for name in (each for each in options.plants if set(PLANTS[each][:2]) <= set(pool.after)):
        shares = {f"{n} repeats": alarms(pool, name, n, options.runs) for n in options.repeats}
        yield {
            **head,
            "planted": name,
            "mean loss": round(mean_loss(pool, name), 1),
            "runs": options.runs,
            **{
                n: f"{k / options.runs:.1%} ({_interval(k, options.runs)})"
                for n, k in shares.items()
            },
        }
        if name == "nothing":
            yield {**head, **_resampled(pool, options)}


def _resampled(pool: Pool, options: argparse.Namespace) -> Row:
    """Return the alarms without a loss on pools that are drawn from this one."""
    each = max(options.runs // POOLS, 50)
    found = {}
    for n in options.repeats:
        rng = np.random.default_rng(n)
        counts = [alarms(pool.resampled(rng), "nothing", n, each) for _ in range(POOLS)]
        found[f"{n} repeats"] = f"{sum(counts)} alarms, at most {max(counts)} in {each}"
    return {"planted": f"nothing, {POOLS} resampled pools", "runs": POOLS * each, **found}


def table(rows: Sequence[Row]) -> str:
    """Return alarms in % of the runs, with 95 % intervals."""
    return markdown(rows, [column for column in rows[0] if column != "trained"])


def read(path: Path) -> Pool:
    """Return the pool in a file that `pool` wrote."""
    with np.load(path) as arrays:
        names = [name.removeprefix("after/") for name in arrays if name.startswith("after/")]
        return Pool(
            tuple(map(str, arrays["cases"])), {name: arrays[f"after/{name}"] for name in names}
        )


def alarms(pool: Pool, plant: str, repeats: int, runs: int) -> int:
    """Return in how many of these runs the gate fails."""
    rng = np.random.default_rng([repeats, *plant.encode()])
    return sum(_alarm(pool, plant, repeats, rng) for _ in range(runs))


def mean_loss(pool: Pool, plant: str) -> float:
    """Return the mean loss of attacked accuracy over cases, models and attacks, in points."""
    before, after, lost = PLANTS[plant]
    return float(_accuracy(pool.after[before]) - _accuracy(pool.after[after]) + lost)


def _alarm(pool: Pool, plant: str, repeats: int, rng: np.random.Generator) -> bool:
    before, after, lost = PLANTS[plant]
    seeds = len(pool.after[before])
    drawn = rng.permutation(seeds)
    old, new = drawn[:repeats], drawn[repeats : 2 * repeats]
    if 2 * repeats > seeds:
        raise SystemExit(f"{repeats} repeats on both sides need a pool of {2 * repeats} seeds")
    attacks = _attacks(pool.after[before].shape[1], repeats, rng)
    pairs = [
        Pair(
            case.split("/")[-3],
            _entry(pool.after[before][old, attacks, place], f"{before}-", old),
            _entry(_worse(pool.after[after][new, attacks, place], lost, rng), f"{after}-", new),
        )
        for place, case in enumerate(pool.cases)
    ]
    alpha = ALPHA * (1.0 - JOINT_SHARE) / len(pairs)
    joint = compare_jointly(pairs, LOSS_MARGIN, ALPHA * JOINT_SHARE)
    verdicts = [joint, *(compare(pair, LOSS_MARGIN, alpha) for pair in pairs)]
    return any(each is not None and each.result == "fail" for each in verdicts)


def _attacks(known: int, repeats: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return attack seeds for the repeats, each equally often."""
    rounds = [rng.permutation(known) for _ in range(-(-repeats // known))]
    return np.concatenate(rounds)[:repeats]


def _worse(right: Bits, points: float, rng: np.random.Generator) -> Bits:
    """Return predictions with that many points less: random right targets become wrong."""
    right = right.copy()
    for row in right:
        hit = np.flatnonzero(row == 1)
        count = round(points / 100.0 * int((row >= 0).sum()))
        row[rng.choice(hit, min(count, len(hit)), replace=False)] = 0
    return right


def _entry(right: Bits, name: str, seeds: NDArray[np.int64]) -> Entry:
    """Return the entry of the baseline file; `right` is [repeats, targets]."""
    targets = int((right[0] >= 0).sum())
    bits = tuple(np.packbits(row[:targets] == 1).tobytes() for row in right)
    return Entry(
        dataset="",
        attack="",
        threat="",
        targets=targets,
        seconds=0.0,
        before=bits,
        after=bits,
        pretrained=False,
        weights=tuple(f"{name}{seed}" for seed in seeds),
        perturbations=tuple(map(str, range(len(bits)))),
    )


def _accuracy(after: Bits) -> float:
    """Return the accuracy in points, every case weighted equally."""
    known = (after >= 0).sum(axis=-1)
    return 100.0 * float(((after == 1).sum(axis=-1) / known).mean())


def _interval(hits: int, runs: int) -> str:
    found = binomtest(hits, runs).proportion_ci(0.95)
    return f"{found.low:.1%} .. {found.high:.1%}"


def _sizes(pool: Pool) -> str:
    shapes = {name: bits.shape for name, bits in pool.after.items()}
    return ", ".join(f"{name} {s[0]} seeds x {s[1]} attacks" for name, s in shapes.items())
