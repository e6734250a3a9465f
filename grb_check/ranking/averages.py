"""GRB's summaries of a model's accuracies over the attacks of a run, see `metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.attacks.names import WORST, base_name, split_budget
from grb_check.cases.case import is_node_id
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.metrics import Figure, average, average_lowest, over_repeats, weighted_lowest
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


@dataclass(frozen=True, kw_only=True)
class Averages:
    """Summaries of one model on one dataset at one difficulty, over attacks and no attack.

    Attributes:
        model: name.
        dataset: name.
        difficulty: name.
        budget: that the cases name; None if they name none.
        attacks: number of attacks, without `worst`, which is made of the others.
        clean: accuracy without attack.
        mean: over all attacks and no attack.
        three_lowest: mean of the three lowest accuracies in each repeat.
        weighted: weighted mean, in which the lowest accuracy in each repeat counts most.
    """

    model: str
    dataset: str
    difficulty: str
    budget: float | None
    attacks: int
    clean: Figure
    mean: Figure
    three_lowest: Figure
    weighted: Figure


def averages(rows: Sequence[CaseRecord]) -> list[Averages]:
    """Return the summaries of the built-in cases, in the order of the rows.

    Left out are groups with a case without figures, which may be that of the strongest attack.
    """
    groups: dict[tuple[str, str, str, float | None], list[CaseRecord]] = {}
    for row in rows:
        case = row.case
        if is_node_id(row.node_id) and base_name(case.attack) != WORST and row.result != "skip":
            key = (case.model, case.dataset, case.difficulty, split_budget(case.attack)[1])
            groups.setdefault(key, []).append(row)
    result = [_averages(members) for members in groups.values()]
    return [summary for summary in result if summary is not None]


def _averages(rows: Sequence[CaseRecord]) -> Averages | None:
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    models = {outcome.model for outcome in outcomes}
    if len(outcomes) < len(rows) or len(models) > 1:
        return None
    first = outcomes[0]
    clean = [repeat.victim.clean for repeat in first.repeats]
    figures = [clean, *map(_attacked, outcomes)]
    return Averages(
        model=first.model,
        dataset=first.case.dataset,
        difficulty=first.case.difficulty,
        budget=first.budget,
        attacks=len(outcomes),
        clean=over_repeats(average, [clean]),
        mean=over_repeats(average, figures),
        three_lowest=over_repeats(average_lowest, figures),
        weighted=over_repeats(weighted_lowest, figures),
    )


def _attacked(outcome: Outcome) -> list[float]:
    return [repeat.victim.attacked for repeat in outcome.repeats]
