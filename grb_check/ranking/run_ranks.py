"""Ranks of the models of a run: on boards, and among each other.

Formed from the rows of the built-in cases. The weighted accuracy is GRB's, over the attacks and the
accuracy without attack, formed inside each repeat; see `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import Row
from grb_check.cases.metrics import over_repeats, weighted_lowest
from grb_check.cases.node_ids import case_of, is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.errors import count
from grb_check.gate.limits import Gate, clean_floor
from grb_check.gate.rank_limits import Group
from grb_check.ranking.boards.board import NO_ATTACK, Board
from grb_check.ranking.orders import Ranked, ranked
from grb_check.ranking.standing import Place, Standing, standing_under, weighted_standing

Accuracies: TypeAlias = Mapping[str, Sequence[float]]  # attack or NO_ATTACK -> in each repeat
Boards: TypeAlias = Mapping[str, Sequence[Board]]  # dataset -> its boards


@dataclass(frozen=True, kw_only=True)
class GroupStandings:
    """The standings of one model on one dataset at one difficulty.

    Attributes:
        group: model, dataset and difficulty.
        name: of the model, as reports show it.
        standings: by weighted accuracy, on each board.
        accuracies: that the standings are formed from; empty if the model is not ranked.
        unranked: the reason why the model is not ranked; empty if it is.
        deselected: number of cases that the options select and that pytest left out, as with `-k`.
        lost: cases that were to run and have no figures.
        seen: whether any case was reported, with or without figures.
    """

    group: Group
    name: str
    standings: tuple[Standing, ...] = ()
    accuracies: Accuracies = field(default_factory=dict)
    unranked: str = ""
    deselected: int = 0
    lost: tuple[str, ...] = ()
    seen: bool = True

    @property
    def places(self) -> list[Place]:
        """One for each board, or one that says why the model is not ranked."""
        group = self.group
        found: tuple[Standing | None, ...] = (None,) if self.unranked else self.standings
        return [
            Place(
                group=group.id,
                model=self.name,
                dataset=group.dataset,
                difficulty=group.difficulty,
                standing=each,
                reason=self.unranked,
            )
            for each in found
        ]


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The models of the run on one dataset at one difficulty, the best first.

    Attributes:
        group: `dataset/difficulty`.
        attack: name; empty if the accuracies are weighted over attacks.
        attacks: number of attacks.
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
        groups: the standings of each model by weighted accuracy.
        rankings: of the run's models among each other.
        of_cases: node id -> the model's standings under the attack of that case.
        notes: to report.
    """

    groups: tuple[GroupStandings, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    of_cases: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def group_standings(
    planned: Mapping[Group, Sequence[Case]],
    expected: Iterable[str],
    rows: Sequence[Row],
    boards: Boards,
    gate: Gate,
) -> list[GroupStandings]:
    """Return the standings of each group of which a case was to run, in order.

    A model is ranked if all cases that were to run have figures that belong together, and if its
    clean accuracy is not below the floor.

    Args:
        planned: the cases that the options select.
        expected: node ids that were to run.
        rows: of the cases that were reported.
        boards: of each dataset.
        gate: has the floor.
    """
    reported = {row.node_id: row for row in rows if is_node_id(row.node_id)}
    tests: dict[Case, list[Row | None]] = {}
    for node_id in sorted(expected):
        row = reported.get(node_id)
        case = row.case if row is not None else case_of(node_id)
        if case is not None:
            tests.setdefault(case, []).append(row)
    return [
        _group_standings(group, cases, tests, boards.get(group.dataset, ()), gate)
        for group, cases in planned.items()
        if not tests.keys().isdisjoint(cases)
    ]


def rankings(groups: Sequence[GroupStandings]) -> list[Ranking]:
    """Rank the run's models among each other, by weighted accuracy and then under each attack.

    Over the attacks that all ranked models were evaluated under. A single model gives no ranking.
    """
    by_name: dict[str, dict[str, Accuracies]] = {}
    for each in groups:
        if each.accuracies:
            name = f"{each.group.dataset}/{each.group.difficulty}"
            by_name.setdefault(name, {})[each.name] = each.accuracies
    return [
        ranking
        for name, models in by_name.items()
        if len(models) > 1
        for ranking in _rankings(name, models)
    ]


def standings_of(outcome: Outcome, boards: Boards, gate: Gate) -> tuple[Standing, ...]:
    """Return the standings of a model under the attack of one case, on each board that has it.

    None if its clean accuracy is below the floor; boards that were measured on other data are
    left out.
    """
    if outcome.clean < clean_floor(outcome, gate)[0]:
        return ()
    case = outcome.case
    attack = f"{case.scenario}/{case.attack}"
    found = [
        standing_under(board, case.difficulty, attack, outcome.attacked)
        for board in boards.get(case.dataset, ())
        if board.fingerprint in ("", outcome.dataset)
    ]
    return tuple(each for each in found if each is not None)


def _group_standings(
    group: Group,
    cases: Sequence[Case],
    tests: Mapping[Case, Sequence[Row | None]],
    boards: Sequence[Board],
    gate: Gate,
) -> GroupStandings:
    to_run = {case: tests[case] for case in cases if case in tests}
    reported = [row for rows in to_run.values() for row in rows if row is not None]
    outcomes = [row.outcome for row in reported if row.outcome is not None]
    lost = tuple(
        case.id for case, rows in to_run.items() if any(not row or not row.outcome for row in rows)
    )
    unranked = _lost(lost, len(to_run)) if lost else _unlike(outcomes) or _below(outcomes, gate)
    accuracies = {} if unranked else _accuracies(outcomes)
    found = (weighted_standing(each, group.difficulty, accuracies) for each in boards if accuracies)
    return GroupStandings(
        group=group,
        name=outcomes[0].model if outcomes else group.model,
        standings=tuple(each for each in found if each is not None),
        accuracies=accuracies,
        unranked=unranked,
        deselected=len(cases) - len(to_run),
        lost=lost,
        seen=bool(reported),
    )


def _lost(lost: Sequence[str], cases: int) -> str:
    verb = "has" if len(lost) == 1 else "have"
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"{len(lost)} of {count(cases, 'case')} {verb} no figures ({lost[0]}{more})"


def _unlike(outcomes: Sequence[Outcome]) -> str:
    """Return why outcomes do not belong together, as when a fixture has parameters."""
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
            return f"several tests of {outcome.case.id} have different figures"
    return ""


def _below(outcomes: Sequence[Outcome], gate: Gate) -> str:
    for outcome in outcomes:
        floor, _ = clean_floor(outcome, gate)
        if outcome.clean < floor:
            return f"its clean accuracy of {outcome.clean:.1%} is below the floor of {floor:.1%}"
    return ""


def _accuracies(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, ...]]:
    attacked = {
        f"{outcome.case.scenario}/{outcome.case.attack}": tuple(
            repeat.victim.attacked for repeat in outcome.repeats
        )
        for outcome in outcomes
    }
    return {NO_ATTACK: tuple(repeat.victim.clean for repeat in outcomes[0].repeats), **attacked}


def _rankings(name: str, models: Mapping[str, Accuracies]) -> list[Ranking]:
    first, *others = models.values()
    common = [row for row in first if all(row in other for other in others)]
    attacks = [row for row in common if row != NO_ATTACK]
    if not attacks:
        return []

    def ranking(attack: str, rows: Sequence[str]) -> Ranking:
        figures = {
            model: over_repeats(weighted_lowest, [own[row] for row in rows]).mean
            for model, own in models.items()
        }
        order = tuple(ranked(figures, "highest"))
        return Ranking(
            group=name, attack=attack, attacks=1 if attack else len(attacks), models=order
        )

    return [ranking("", common), *(ranking(attack, [attack]) for attack in attacks)]
