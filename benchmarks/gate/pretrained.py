"""Two pretrained models whose true loss is exactly the margin, or nothing, or beyond it.

    python -m benchmarks.gate pretrained cora.npz --losses 0 2 5 --repeats 1 3

Two models of a pool (see `pool`) are made to differ by the loss on average over the targets of a
case; each simulated run then draws as many targets with replacement, and asks the gate.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.gate.planted import Bits, Pool, case_of, compared, entry, read
from benchmarks.rows import Row, markdown
from grb_check.gate.baselines.pairs import Pair

VARIANT = "gcn"
WORDS = ("one case", "any of the cases", "all cases together")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=Path, help="a file of `pool`")
    parser.add_argument("--losses", type=float, nargs="+", default=[0.0, 2.0, 3.0, 5.0])
    parser.add_argument("--repeats", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--runs", type=int, default=400)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each true loss: shares of failures."""
    pool = read(options.pool)
    for loss in options.losses:
        row: Row = {"pool": options.pool.stem, "true loss": loss, "runs": options.runs}
        for n in options.repeats:
            rng = np.random.default_rng([n, round(100 * loss)])
            failures = [_failures(pool, loss, n, rng) for _ in range(options.runs)]
            shares = np.mean(failures, axis=0)
            repeats = "1 repeat" if n == 1 else f"{n} repeats"
            row |= {f"{repeats}, {w}": f"{s:.1%}" for w, s in zip(WORDS, shares, strict=True)}
        yield row


def table(rows: Sequence[Row]) -> str:
    return markdown(rows, list(rows[0]))


def _failures(
    pool: Pool, loss: float, repeats: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Share of failed cases, whether any fails, and whether all together do."""
    bits = pool.after[VARIANT]
    one, other = rng.choice(len(bits), 2, replace=False)
    attacks = rng.choice(bits.shape[1], repeats, replace=False)
    drawn: dict[str, np.ndarray] = {}
    pairs = []
    for index, name in enumerate(pool.cases):
        case = case_of(name)
        before, after = bits[one, attacks, index], bits[other, attacks, index]
        known = int((before[0] >= 0).sum())
        before, after = _apart(before[:, :known], after[:, :known], loss, rng)
        chosen = drawn.setdefault(case.difficulty, rng.integers(known, size=known))
        entries = [
            entry(side[:, chosen], label, np.zeros(repeats, int), pretrained=True)
            for side, label in ((before, "before"), (after, "after"))
        ]
        pairs.append(Pair(case, *entries))
    result = compared(pairs)
    failed = [comparison.result == "fail" for comparison in result.cases]
    return float(np.mean(failed)), float(any(failed)), float(result.joint.result == "fail")


def _apart(before: Bits, after: Bits, loss: float, rng: np.random.Generator) -> tuple[Bits, Bits]:
    """The predictions, changed at random until `after` has lost that many points on average."""
    before, after = before.copy(), after.copy()
    needed = round(loss / 100 * before.size - (int((before == 1).sum()) - int((after == 1).sum())))
    old = 1 if needed > 0 else 0
    flat = after.reshape(-1)
    places = np.flatnonzero(flat == old)
    flat[rng.choice(places, min(abs(needed), len(places)), replace=False)] = 1 - old
    return before, after
