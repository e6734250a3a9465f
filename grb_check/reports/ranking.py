"""Orders: which attack hurts most, which model is hurt least."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from grb_check.ledger import Row
from grb_check.outcomes import Outcome

Ranked = list[tuple[str, float]]


def by_effect(rows: Sequence[Row]) -> dict[tuple[str, str], Ranked]:
    """(model, dataset/difficulty) -> attacks with their drop, the strongest first."""
    groups: dict[tuple[str, str], Ranked] = {}
    for row in rows:
        if row.outcome is not None:
            case = row.outcome.case
            group = groups.setdefault((case.model, f"{case.dataset}/{case.difficulty}"), [])
            group.append((f"{case.scenario}/{case.attack}", row.outcome.drop))
    return {key: sorted(group, key=lambda entry: -entry[1]) for key, group in groups.items()}


def mean_by_attack(rows: Sequence[Row]) -> Ranked:
    """Attacks with their mean drop over all cases, the strongest first."""
    return _means(
        [(f"{o.case.scenario}/{o.case.attack}", o.drop) for o in _outcomes(rows)], reverse=True
    )


def by_robustness(rows: Sequence[Row]) -> Ranked:
    """Models with their mean drop, the least hurt first.

    Over the cases that every model was judged in. A model below the clean floor anywhere has no
    rank: what it never had it cannot lose.
    """
    out = {row.outcome.model for row in rows if row.outcome is not None and row.below_floor}
    drops: dict[str, dict[str, float]] = {}
    for outcome in _outcomes(rows):
        if outcome.model not in out:
            case = f"{outcome.case.dataset}/{outcome.case.cell}"
            drops.setdefault(outcome.model, {})[case] = outcome.drop
    common = set.intersection(*map(set, drops.values())) if drops else set()
    return _means(
        [(model, own[case]) for model, own in drops.items() for case in sorted(common)],
        reverse=False,
    )


def _outcomes(rows: Sequence[Row]) -> list[Outcome]:
    return [row.outcome for row in rows if row.outcome is not None]


def _means(entries: Ranked, *, reverse: bool) -> Ranked:
    drops: dict[str, list[float]] = {}
    for name, drop in entries:
        drops.setdefault(name, []).append(drop)
    means = [(name, statistics.fmean(values)) for name, values in drops.items()]
    return sorted(means, key=lambda entry: entry[1], reverse=reverse)
