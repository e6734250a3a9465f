"""How often the gate is wrong about a model, and what it detects, by the figures of one run.

The repeats of the run, each with a seed of its own, are divided at random into two sides of equal
size, which the gate compares as it does a run and its base. Nothing is lost between them, so that
every failure is a false alarm. A real comparison has the same seeds on both sides, and is sharper.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.verdicts import Comparison
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.compare import compare
from grb_check.gate.baselines.files import BaselineCase, BaselineFile, Pair
from grb_check.gate.baselines.joint import ModelOnDataset, group_name, groups_of

SIZES: Final = (3, 5, 10, 20, 50)  # repeats of a side
DRAWS: Final = 100  # divisions for each size
HEAD: Final = ("two sides with other seeds", "repeats", "false alarms", "detects")
LEAST_DIVIDED: Final = 2 * SIZES[0]  # repeats of a run that can be divided


@dataclass(frozen=True, kw_only=True)
class Division:
    """What the gate says of two sides of a run.

    Attributes:
        failed: models and datasets for which it fails, and so each time wrongly.
        detects: smallest loss in all their cases together that is shown with 80 % probability, in
            points, as the test estimates it; None if that is unknown.
    """

    failed: frozenset[ModelOnDataset]
    detects: Mapping[ModelOnDataset, float | None]


def burn_in(
    now: Mapping[Case, BaselineCase], planned: Sequence[Case], margin: float
) -> list[tuple[str, ...]]:
    """Return the table of a run: its head, and for each model, dataset and size of a side a row.

    Args:
        now: entries of the run.
        planned: the cases of the whole run.
        margin: tolerated loss of accuracy, in percentage points.
    """
    repeats = min((entry.repeats for entry in now.values()), default=0)
    rows: list[tuple[str, ...]] = []
    for size in SIZES:
        if 2 * size > repeats:
            break
        rng = random.Random(size)
        drawn = [rng.sample(range(repeats), 2 * size) for _ in range(DRAWS)]
        found = [divide(now, planned, margin, each[:size], each[size:]) for each in drawn]
        for group in groups_of(now):
            alarms = sum(group in each.failed for each in found)
            detected = [each.detects.get(group) for each in found]
            known = sorted(each for each in detected if each is not None)
            detects = f"{statistics.median(known):.1f} points" if known else "-"
            rows.append((group_name(group), str(size), f"{alarms} of {DRAWS}", detects))
    rows.sort(key=lambda row: row[0])  # sizes stay in order
    return [HEAD, *rows]


def divide(
    now: Mapping[Case, BaselineCase],
    planned: Sequence[Case],
    margin: float,
    before: Sequence[int],
    after: Sequence[int],
) -> Division:
    """Compare some repeats of a run with others.

    Args:
        now: entries of the run.
        planned: the cases of the whole run.
        margin: tolerated loss of accuracy, in percentage points.
        before: the repeats that are the base.
        after: the others, as many.
    """
    base, change = ({c: only(e, side) for c, e in now.items()} for side in (before, after))
    saved = BaselineFile(entries={case.id: entry for case, entry in base.items()})
    gate = Baseline(path=Path(), margin=margin, saved=saved)
    cases: dict[Case, Comparison] = {
        case: compare(Pair(case, base[case], change[case]), margin, gate.alpha) for case in now
    }
    explained = {(c.model, c.dataset) for c, each in cases.items() if each.explained}
    joint = gate.compare_jointly(change, planned, explained)
    failed = {(c.model, c.dataset) for c, each in cases.items() if each.result == "fail"}
    failed |= {(each.model, each.dataset) for each in joint if each.failed}
    attacked = [each for each in joint if each.accuracy == "attacked"]
    detects = {(each.model, each.dataset): each.comparison.detectable for each in attacked}
    return Division(failed=frozenset(failed), detects=detects)


def only(entry: BaselineCase, repeats: Sequence[int]) -> BaselineCase:
    """Return an entry with some of its repeats, in this order."""
    return replace(
        entry,
        before=tuple(entry.before[each] for each in repeats),
        after=tuple(entry.after[each] for each in repeats),
        weights=tuple(entry.weights[each] for each in repeats),
        perturbations=tuple(entry.perturbations[each] for each in repeats),
    )
