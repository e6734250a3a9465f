"""Budget curves: how the drop of a model grows with what the attacker may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.attacks.names import split_budget
from grb_check.cases.expected_cases import Row
from grb_check.cases.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class Point:
    """What one budget did: means over the repeats."""

    budget: float
    drop: float
    drop_deviation: float
    clean: float
    attacked: float


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The same attack on the same targets at two or more budgets, the smallest first."""

    model: str
    dataset: str
    difficulty: str
    scenario: str
    attack: str  # without the budget
    points: tuple[Point, ...]

    @property
    def id(self) -> str:
        """As that of a case, without its model."""
        return f"{self.dataset}/{self.difficulty}/{self.scenario}/{self.attack}"


def curves(rows: Sequence[Row]) -> list[Curve]:
    """The curves of a run, in the order of its cases; cases without a budget are in none."""
    groups: dict[tuple[str, str, str, str, str], list[Outcome]] = {}
    for row in rows:
        if row.outcome is not None and row.outcome.budget is not None:
            case = row.outcome.case
            attack = split_budget(case.attack)[0]
            key = (row.outcome.model, case.dataset, case.difficulty, case.scenario, attack)
            groups.setdefault(key, []).append(row.outcome)
    return [_curve(*key, outcomes) for key, outcomes in groups.items() if len(outcomes) > 1]


def named_curves(rows: Sequence[Row]) -> list[tuple[str, Curve]]:
    """The curves with their names: ids, after `model@` where a run has several models."""
    several = len({row.outcome.model for row in rows if row.outcome is not None}) > 1
    return [(f"{each.model}@{each.id}" if several else each.id, each) for each in curves(rows)]


def _curve(
    model: str,
    dataset: str,
    difficulty: str,
    scenario: str,
    attack: str,
    outcomes: Sequence[Outcome],
) -> Curve:
    points = [
        Point(
            budget=outcome.budget or 0.0,
            drop=outcome.drop,
            drop_deviation=outcome.drop_deviation,
            clean=outcome.clean,
            attacked=outcome.attacked,
        )
        for outcome in outcomes
    ]
    return Curve(
        model=model,
        dataset=dataset,
        difficulty=difficulty,
        scenario=scenario,
        attack=attack,
        points=tuple(sorted(points, key=lambda point: point.budget)),
    )
