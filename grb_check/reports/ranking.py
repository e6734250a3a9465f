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
    """Models with their mean drop over all cases, the least hurt first."""
    return _means([(outcome.model, outcome.drop) for outcome in _outcomes(rows)], reverse=False)


def _outcomes(rows: Sequence[Row]) -> list[Outcome]:
    return [row.outcome for row in rows if row.outcome is not None]


def _means(entries: Ranked, *, reverse: bool) -> Ranked:
    drops: dict[str, list[float]] = {}
    for name, drop in entries:
        drops.setdefault(name, []).append(drop)
    means = [(name, statistics.fmean(values)) for name, values in drops.items()]
    return sorted(means, key=lambda entry: entry[1], reverse=reverse)
