"""GRB's summaries of a model's accuracies over the attacks of a run, see `metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.attacks.names import (
    WORST,
    Gang,
    base_name,
    split_budget,
    split_gang,
    with_gang,
)
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.metrics import Figure, average, average_lowest, over_repeats, weighted_lowest
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class Averages:
    """Summaries of one model on one dataset at one difficulty, over attacks and no attack.

    Attributes:
        model: name.
        dataset: name.
        difficulty: name, with the gang of its attacks if they are of gangs.
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
    groups: dict[tuple[str, str, str, Gang | None, float | None], list[CaseRecord]] = {}
    for row in rows:
        case = row.case
        if is_node_id(row.node_id) and base_name(case.attack) != WORST and row.result != "skip":
            gang, budget = split_gang(case.attack)[1], split_budget(case.attack)[1]
            key = (case.model, case.dataset, case.difficulty, gang, budget)
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
        difficulty=with_gang(first.case.difficulty, split_gang(first.case.attack)[1]),
        budget=first.budget,
        attacks=len(outcomes),
        clean=over_repeats(average, [clean]),
        mean=over_repeats(average, figures),
        three_lowest=over_repeats(average_lowest, figures),
        weighted=over_repeats(weighted_lowest, figures),
    )


def _attacked(outcome: Outcome) -> list[float]:
    return [repeat.victim.attacked for repeat in outcome.repeats]
