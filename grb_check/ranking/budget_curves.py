"""Accuracies at several budgets, as curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.attacks.names import split_budget
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class Point:
    """The results at one budget: means over the repeats."""

    budget: float
    drop: float
    drop_deviation: float
    clean: float
    attacked: float


@dataclass(frozen=True)
class Curve:
    """One attack on the same targets at two or more budgets, in ascending order."""

    model: str
    dataset: str
    difficulty: str
    scenario: str
    attack: str  # without the budget
    points: tuple[Point, ...]

    @property
    def id(self) -> str:
        """Case id, without model and budget."""
        return f"{self.dataset}/{self.difficulty}/{self.scenario}/{self.attack}"


def curves(rows: Sequence[CaseRecord]) -> list[Curve]:
    """Return the curves of a run, in the order of its cases; cases without a budget are in none."""
    groups: dict[tuple[str, str, str, str, str], list[Point]] = {}
    for row in rows:
        if row.outcome is not None and row.outcome.budget is not None:
            case = row.outcome.case
            attack = split_budget(case.attack)[0]
            key = (row.outcome.model, case.dataset, case.difficulty, case.scenario, attack)
            groups.setdefault(key, []).append(_point(row.outcome, row.outcome.budget))
    return [
        Curve(*key, tuple(sorted(points, key=lambda point: point.budget)))
        for key, points in groups.items()
        if len(points) > 1
    ]


def _point(outcome: Outcome, budget: float) -> Point:
    return Point(
        budget=budget,
        drop=outcome.drop,
        drop_deviation=outcome.drop_deviation,
        clean=outcome.clean,
        attacked=outcome.attacked,
    )
