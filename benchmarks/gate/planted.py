"""Simulated runs with a planted change, drawn from a pool of trained models (see `pool`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from grb_check.cases.case import Case
from grb_check.cases.verdicts import Comparison
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline
from grb_check.gate.baselines.compare import compare
from grb_check.gate.baselines.files import BaselineCase, BaselineFile
from grb_check.gate.baselines.pairs import Pair

Bits = NDArray[np.int8]
Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A change between the baseline and the new run.

    Attributes:
        before: variant of the baseline.
        after: variant of the new run.
        points: of accuracy that are lost besides.
        in_one_case: whether one case loses them, another one in each run; else all do.
        collapse: share of trainings whose accuracy halves, before and after.
        same_seed: number of repeats that have the same weights, because the training fixes its own
            seed; 0 stands for all.
        pretrained: whether the models are declared as finished: one model in all repeats.
    """

    before: str = "gcn"
    after: str = "gcn"
    points: float = 0.0
    in_one_case: bool = False
    collapse: tuple[float, float] = (0.0, 0.0)
    same_seed: int = 1
    pretrained: bool = False


PLANTS: Final[dict[str, Plant]] = {
    "nothing": Plant(),
    "2-point loss": Plant(points=2.0),
    "3-point loss": Plant(points=3.0),
    "5-point loss": Plant(points=5.0),
    "10-point loss": Plant(points=10.0),
    "dropout off": Plant(after="gcn_no_dropout"),
    "dropout off, with layer norm": Plant(before="gcn_ln", after="gcn_ln_no_dropout"),
    "layer norm removed": Plant(before="gcn_ln"),
    "adversarial training removed": Plant(before="gcn_at"),
    "5 points in one case": Plant(points=5.0, in_one_case=True),
    "collapses, nothing else": Plant(collapse=(0.1, 0.1)),
    "collapses, 3-point loss": Plant(points=3.0, collapse=(0.1, 0.1)),
    "collapses, 5-point loss": Plant(points=5.0, collapse=(0.1, 0.1)),
    "collapses only in the new run, 1 of 10": Plant(collapse=(0.0, 0.1)),
    "collapses only in the new run, 3 of 10": Plant(collapse=(0.0, 0.3)),
    "one seed for all repeats, nothing": Plant(same_seed=0),
    "one seed for all repeats, 5-point loss": Plant(same_seed=0, points=5.0),
    "one seed for two repeats, nothing": Plant(same_seed=2),
    "one seed for two repeats, 5-point loss": Plant(same_seed=2, points=5.0),
}


@dataclass(frozen=True)
class Pool:
    """Whether targets are right, -1 for none.

    Attributes:
        cases: ids.
        before: int8 [seeds, cases, targets], without attack, by variant.
        after: int8 [seeds, attacks, cases, targets].
    """

    cases: tuple[str, ...]
    before: dict[str, Bits]
    after: dict[str, Bits]

    def resampled(self, rng: np.random.Generator) -> Pool:
        """Return a pool of as many models, drawn with replacement."""
        drawn = {name: rng.integers(len(bits), size=len(bits)) for name, bits in self.after.items()}
        before = {name: self.before[name][seeds] for name, seeds in drawn.items()}
        return Pool(
            self.cases, before, {name: self.after[name][seeds] for name, seeds in drawn.items()}
        )


@dataclass(frozen=True)
class Verdicts:
    """The comparisons of a simulated run: of each case, of all of them, and without attack."""

    cases: tuple[Comparison, ...]
    joint: Comparison
    clean: Comparison

    @property
    def alarm(self) -> bool:
        """Whether the run fails."""
        return any(
            comparison.result == "fail" for comparison in (self.joint, self.clean, *self.cases)
        )


def read(path: Path) -> Pool:
    """Return the pool in a file that `pool` wrote."""
    with np.load(path) as arrays:
        names = [name.removeprefix("after/") for name in arrays if name.startswith("after/")]
        before, after = ({n: arrays[f"{side}/{n}"] for n in names} for side in ("before", "after"))
        return Pool(tuple(map(str, arrays["cases"])), before, after)


def mean_loss(pool: Pool, plant: Plant) -> float:
    """Return the mean loss of attacked accuracy over cases, models and attacks, in points."""
    was, now = (_accuracy(pool.after[name]) for name in (plant.before, plant.after))
    points = plant.points / (len(pool.cases) if plant.in_one_case else 1)
    before, after = (1.0 - share / 2 for share in plant.collapse)
    return float(was * before - (now - points) * after)


def draw(pool: Pool, plant: Plant, repeats: int, rng: np.random.Generator) -> list[Pair]:
    """Return a baseline and a new run of other training seeds, under the same perturbations."""
    sides = (pool.after[plant.before], pool.after[plant.after])
    known, attacks, cases = sides[0].shape[:3]
    if 2 * repeats > known:
        raise SystemExit(f"{repeats} repeats on both sides need a pool of {2 * repeats} seeds")
    shuffled = rng.permutation(known)
    seeds = [_repeated(half, plant.same_seed) for half in np.split(shuffled[: 2 * repeats], 2)]
    attack = rounds_of(attacks, repeats, rng)
    gone = [rng.random(repeats) < share for share in plant.collapse]
    chosen = rng.integers(cases) if plant.in_one_case else None
    pairs = []
    for index, name in enumerate(pool.cases):
        points = plant.points if chosen in (None, index) else 0.0
        before = _collapsed(sides[0][seeds[0], attack, index], gone[0], rng)
        after = _collapsed(worse(sides[1][seeds[1], attack, index], points, rng), gone[1], rng)
        clean = [
            _collapsed(pool.before[variant][seeds[side], index], gone[side], rng)
            for side, variant in enumerate((plant.before, plant.after))
        ]
        entries = (
            entry(before, f"{plant.before}-", seeds[0], clean[0], pretrained=plant.pretrained),
            entry(after, f"{plant.after}-", seeds[1], clean[1], pretrained=plant.pretrained),
        )
        pairs.append(Pair(case_of(name), *entries))
    return pairs


def compared(pairs: Sequence[Pair]) -> Verdicts:
    """Ask the gate."""
    baseline = Baseline(
        path=Path(),
        margin=LOSS_MARGIN,
        saved=BaselineFile(entries={pair.case.id: pair.before for pair in pairs}),
    )
    cases = tuple(compare(pair, LOSS_MARGIN, baseline.alpha) for pair in pairs)
    group = (pairs[0].case.model, pairs[0].case.dataset)
    now = {pair.case: pair.after for pair in pairs}
    joint, clean = baseline.compare_jointly(
        now, now, [group] if any(comparison.explained for comparison in cases) else []
    )
    return Verdicts(cases, joint.comparison, clean.comparison)


def rounds_of(attacks: int, repeats: int, rng: np.random.Generator) -> Indices:
    """Return attack seeds for the repeats, each equally often."""
    rounds = [rng.permutation(attacks) for _ in range(-(-repeats // attacks))]
    return np.concatenate(rounds)[:repeats]


def case_of(name: str) -> Case:
    """Return the case of an id of a pool."""
    dataset, *cell = name.rsplit("/", 3)
    return Case(dataset, *cell)


def entry(
    right: Bits, name: str, seeds: Indices, clean: Bits | None = None, *, pretrained: bool = False
) -> BaselineCase:
    """Return the entry of the baseline file; `right` and `clean` are [repeats, targets].

    Without `clean`, every target is right without attack.
    """
    targets = int((right[0] >= 0).sum())
    without = np.ones_like(right) if clean is None else clean
    before, bits = (
        tuple(np.packbits(row[:targets] == 1).tobytes() for row in side)
        for side in (without, right)
    )
    return BaselineCase(
        dataset="",
        attack="",
        threat="",
        targets=targets,
        seconds=0.0,
        before=before,
        after=bits,
        pretrained=pretrained,
        weights=tuple(f"{name}{seed}" for seed in seeds),
        perturbations=tuple(map(str, range(len(bits)))),
    )


def _repeated(seeds: Indices, times: int) -> Indices:
    """Training seeds of the repeats, each for so many of them; 0 stands for all."""
    times = times or len(seeds)
    return np.repeat(seeds[: -(-len(seeds) // times)], times)[: len(seeds)]


def worse(right: Bits, points: float, rng: np.random.Generator) -> Bits:
    """Return predictions with so many points less on average: random right ones become wrong."""
    right = right.copy()
    for row in right:
        exact = points / 100.0 * int((row >= 0).sum())
        count = int(exact) + (rng.random() < exact % 1.0)
        hit = np.flatnonzero(row == 1)
        row[rng.choice(hit, min(count, len(hit)), replace=False)] = 0
    return right


def _collapsed(right: Bits, gone: NDArray[np.bool_], rng: np.random.Generator) -> Bits:
    """Predictions of which half of the right ones become wrong in some repeats."""
    right = right.copy()
    for repeat in np.flatnonzero(gone):
        row = right[repeat]
        hit = np.flatnonzero(row == 1)
        row[rng.choice(hit, len(hit) // 2, replace=False)] = 0
    return right


def _accuracy(after: Bits) -> float:
    """The accuracy in points, every case weighted equally."""
    known = (after >= 0).sum(axis=-1)
    return 100.0 * float(((after == 1).sum(axis=-1) / known).mean())
