"""Orders of attacks by effect, and of models by robustness."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.metrics import ranks
from grb_check.cases.outcomes import Outcome


@dataclass(frozen=True)
class RankedEntry:
    """An entry of an order; equal figures share the smallest rank."""

    rank: int
    name: str
    figure: float


def ranked(figures: Mapping[str, float], best: Literal["highest", "lowest"]) -> list[RankedEntry]:
    """Return the names in order, the best first."""
    result = sorted(ranks(figures, best=best).items(), key=lambda item: item[1])
    return [RankedEntry(rank, name, figures[name]) for name, rank in result]


def by_effect(rows: Sequence[CaseRecord]) -> dict[tuple[str, str], list[RankedEntry]]:
    """Return (model, dataset/difficulty) -> attacks with their drop, the strongest first."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for outcome in _outcomes(rows):
        case = outcome.case
        group = groups.setdefault((case.model, f"{case.dataset}/{case.difficulty}"), {})
        group.setdefault(f"{case.scenario}/{case.attack}", []).append(outcome.drop)
    return {key: ranked(_means(drops), "highest") for key, drops in groups.items()}


def mean_by_attack(rows: Sequence[CaseRecord]) -> list[RankedEntry]:
    """Return attacks with their mean drop over all cases, the strongest first."""
    drops: dict[str, list[float]] = {}
    for outcome in _outcomes(rows):
        name = f"{outcome.case.scenario}/{outcome.case.attack}"
        drops.setdefault(name, []).append(outcome.drop)
    return ranked(_means(drops), "highest")


def by_robustness(rows: Sequence[CaseRecord], *, adaptive: bool | None = None) -> list[RankedEntry]:
    """Return models with their mean drop over the cases that all have, the most robust first.

    A model below the clean floor in any case is left out: it cannot lose accuracy it never had.

    Args:
        rows: of the run.
        adaptive: only over attacks that see the model, or over those that do not; None for all.
    """
    out = {row.outcome.model for row in rows if row.outcome is not None and row.below_floor}
    drops: dict[str, dict[str, float]] = {}
    for outcome in _outcomes(rows):
        if outcome.model not in out and adaptive in (None, outcome.adaptive):
            case = f"{outcome.case.dataset}/{outcome.case.cell}"
            drops.setdefault(outcome.model, {})[case] = outcome.drop
    common = set.intersection(*map(set, drops.values())) if drops else set()
    if not common:
        return []
    return ranked(
        _means(
            {
                model: [model_drops[case] for case in sorted(common)]
                for model, model_drops in drops.items()
            }
        ),
        "lowest",
    )


def _outcomes(rows: Sequence[CaseRecord]) -> list[Outcome]:
    return [row.outcome for row in rows if row.outcome is not None]


def _means(values: Mapping[str, Iterable[float]]) -> dict[str, float]:
    return {name: statistics.fmean(figures) for name, figures in values.items()}
