"""Where the models of a run stand by weighted accuracy: on leaderboards and among themselves.

Read from the rows of the built-in cases. The weighted accuracy is GRB's, over the attacks and the
row without attack, formed inside each repeat; see `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grb_check.cases.case import Case, case_of, is_node_id
from grb_check.cases.expected_cases import Row
from grb_check.cases.metrics import over_repeats, weighted_lowest
from grb_check.cases.outcomes import Outcome
from grb_check.gate.limits import Gate, clean_floor
from grb_check.gate.rank_limits import Group
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.standing import Standing, standing, standing_under
from grb_check.ranking.comparison_models import Opponents
from grb_check.ranking.orders import Ranked, ranked

Accuracies = Mapping[str, Sequence[float]]  # attack, or NO_ATTACK -> accuracy in each repeat


@dataclass(frozen=True, kw_only=True)
class Place:
    """What is known of the rank of one model on one dataset at one difficulty.

    Attributes:
        group: model, dataset and difficulty.
        name: of the model, for people.
        standings: on each leaderboard.
        rows: what the standings are made of; empty where the model has no rank.
        why_none: why it has no rank; empty where it has one.
        deselected: cases that the options select and that pytest then left out, as for `-k`.
        lost: cases that were to run and have no figures.
        seen: whether any case came back, with figures or without.
    """

    group: Group
    name: str
    standings: tuple[Standing, ...] = ()
    rows: Accuracies = field(default_factory=dict)
    why_none: str = ""
    deselected: int = 0
    lost: tuple[str, ...] = ()
    seen: bool = True


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The models of the run on one dataset at one difficulty, the best first.

    Attributes:
        group: `dataset/difficulty`.
        attack: under which; empty where the figures are weighted over attacks.
        attacks: how many attacks that is.
        models: with their accuracy, or weighted accuracy.
    """

    group: str
    attack: str
    attacks: int
    models: tuple[Ranked, ...]


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """All ranks of a run, for the reports.

    Attributes:
        places: where each model stands on leaderboards by weighted accuracy.
        comparisons: of the run's models with each other.
        of_cases: node id -> where the model stands under that attack.
        notes: what wants to be said.
    """

    places: tuple[Place, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    of_cases: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def places(
    planned: Mapping[Group, Sequence[Case]],
    expected: Iterable[str],
    rows: Sequence[Row],
    opponents: Mapping[str, Sequence[Opponents]],
    gate: Gate,
) -> list[Place]:
    """One for each group of which a case was to run, in order.

    A model has a rank where all cases that were to run have figures that belong together, and where
    its clean accuracy is not below the floor.

    Args:
        planned: the cases that the options select.
        expected: node ids that were to run.
        rows: what came back.
        opponents: leaderboards of each dataset.
        gate: which has the floor.
    """
    back = {row.node_id: row for row in rows if is_node_id(row.node_id)}
    tests: dict[Case, list[Row | None]] = {}
    for node_id in sorted(expected):
        row = back.get(node_id)
        case = row.case if row is not None else case_of(node_id)
        if case is not None:
            tests.setdefault(case, []).append(row)
    return [
        _place(group, cases, tests, opponents.get(group.dataset, ()), gate)
        for group, cases in planned.items()
        if not tests.keys().isdisjoint(cases)
    ]


def comparisons(found: Sequence[Place]) -> list[Comparison]:
    """The run's models among themselves: weighted, then under each attack.

    Over the attacks that all models with a rank were judged under; one model alone is not compared.
    """
    groups: dict[str, dict[str, Accuracies]] = {}
    for place in found:
        if place.rows:
            name = f"{place.group.dataset}/{place.group.difficulty}"
            groups.setdefault(name, {})[place.name] = place.rows
    return [
        comparison
        for name, models in groups.items()
        if len(models) > 1
        for comparison in _compared(name, models)
    ]


def standings_of(
    outcome: Outcome, opponents: Mapping[str, Sequence[Opponents]], gate: Gate
) -> tuple[Standing, ...]:
    """Where a model stands under the attack of one case, on each leaderboard that knows it.

    Nowhere, if its clean accuracy is below the floor or the leaderboard is one of other data.
    """
    if outcome.clean < clean_floor(outcome, gate)[0]:
        return ()
    case = outcome.case
    attack = f"{case.scenario}/{case.attack}"
    found = [
        standing_under(each.board, case.difficulty, attack, outcome.attacked, each.only)
        for each in opponents.get(case.dataset, ())
        if each.board.fingerprint in ("", outcome.dataset)
    ]
    return tuple(each for each in found if each is not None)


def _place(
    group: Group,
    cases: Sequence[Case],
    tests: Mapping[Case, Sequence[Row | None]],
    boards: Sequence[Opponents],
    gate: Gate,
) -> Place:
    to_run = {case: tests[case] for case in cases if case in tests}
    rows_back = [row for rows in to_run.values() for row in rows if row is not None]
    outcomes = [row.outcome for row in rows_back if row.outcome is not None]
    name = outcomes[0].model if outcomes else group.model
    deselected = len(cases) - len(to_run)
    lost = tuple(
        case.id for case, rows in to_run.items() if any(not row or not row.outcome for row in rows)
    )
    why = _lost(lost, len(to_run)) if lost else _unlike(outcomes) or _below(outcomes, gate)
    if why:
        return Place(
            group=group,
            name=name,
            why_none=why,
            deselected=deselected,
            lost=lost,
            seen=bool(rows_back),
        )
    rows = _accuracies(outcomes)
    standings = [standing(each.board, group.difficulty, rows, each.only) for each in boards]
    return Place(
        group=group,
        name=name,
        standings=tuple(each for each in standings if each is not None),
        rows=rows,
        deselected=deselected,
    )


def _lost(lost: Sequence[str], count: int) -> str:
    verb = "has" if len(lost) == 1 else "have"
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"{len(lost)} of {count} cases {verb} no figures ({lost[0]}{more})"


def _unlike(outcomes: Sequence[Outcome]) -> str:
    """Why they are not of one model and its repeats, as where a fixture has parameters."""
    models = dict.fromkeys(outcome.model for outcome in outcomes)
    if len(models) > 1:
        return f"its cases are of several models ({', '.join(models)})"
    counts = sorted({len(outcome.repeats) for outcome in outcomes})
    if len(counts) > 1:
        return f"its cases have different numbers of repeats ({', '.join(map(str, counts))})"
    figures: dict[Case, object] = {}
    for outcome in outcomes:
        own = [(repeat.victim.clean, repeat.victim.attacked) for repeat in outcome.repeats]
        if figures.setdefault(outcome.case, own) != own:
            return f"{outcome.case.id} is several tests of different figures"
    return ""


def _below(outcomes: Sequence[Outcome], gate: Gate) -> str:
    for outcome in outcomes:
        floor, _ = clean_floor(outcome, gate)
        if outcome.clean < floor:
            return f"its clean accuracy of {outcome.clean:.1%} is below the floor of {floor:.1%}"
    return ""


def _accuracies(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, ...]]:
    rows = {
        f"{outcome.case.scenario}/{outcome.case.attack}": tuple(
            repeat.victim.attacked for repeat in outcome.repeats
        )
        for outcome in outcomes
    }
    return {NO_ATTACK: tuple(repeat.victim.clean for repeat in outcomes[0].repeats), **rows}


def _compared(name: str, models: Mapping[str, Accuracies]) -> list[Comparison]:
    first, *others = models.values()
    common = [row for row in first if all(row in other for other in others)]
    attacks = [row for row in common if row != NO_ATTACK]
    if not attacks:
        return []

    def comparison(attack: str, rows: Sequence[str]) -> Comparison:
        figures = {
            model: over_repeats(weighted_lowest, [own[row] for row in rows]).mean
            for model, own in models.items()
        }
        order = tuple(ranked(figures, "highest"))
        count = len(attacks) if not attack else 1
        return Comparison(group=name, attack=attack, attacks=count, models=order)

    return [comparison("", common), *(comparison(attack, [attack]) for attack in attacks)]
