"""The ranks of one run: against whom, where each model stands, and whether that is good enough."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from grb_check import datasets
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.expected_cases import Row
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import Shard
from grb_check.errors import UsageError
from grb_check.gate.rank_limits import FLAG as GATE_FLAG
from grb_check.gate.rank_limits import Group, RankLimit, check_rank_limits, limit_of
from grb_check.ranking.boards.standing import Standing
from grb_check.ranking.comparison_models import (
    FLAG,
    Opponents,
    check_attacks,
    check_data,
    find_opponents,
    knows,
)
from grb_check.ranking.rank_words import listed, sentence
from grb_check.ranking.standings import Place, Ranks, comparisons, places, standings_of
from grb_check.settings.options import COMMAND_LINE, INI
from grb_check.settings.settings import Settings

SELECTING: Final = (
    "grb_suite",
    "grb_dataset",
    "grb_difficulty",
    "grb_scenario",
    "grb_attack",
    "grb_budget",
    "grb_case",
)


@dataclass(frozen=True, kw_only=True)
class RankVerdict:
    """What the limit on a rank says of one model on one dataset at one difficulty.

    Attributes:
        group: the model, dataset and difficulty.
        limit: the worst rank that passes.
        passed: None where it cannot be judged, because cases were left out, the run stopped, or
            this is a part of one.
        message: why, in one line.
        rank: the model's; None where it has none.
    """

    group: Group
    limit: int
    passed: bool | None
    message: str
    rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """What a run knows of ranks before its cases run.

    Attributes:
        settings: in force.
        planned: the cases that the options select, by model, dataset and difficulty.
        opponents: the leaderboards of each dataset.
        notes: on datasets without one.
    """

    settings: Settings
    planned: Mapping[Group, Sequence[Case]]
    opponents: Mapping[str, Sequence[Opponents]]
    notes: tuple[str, ...] = ()

    def check_data(self, dataset: str, fingerprint: str) -> None:
        """Refuse leaderboards that were measured on other data than what was loaded.

        Raises:
            UsageError: see `opponents.check_data`.
        """
        check_data(self.opponents.get(dataset, ()), dataset, fingerprint)

    def standings_of(self, outcome: Outcome) -> tuple[Standing, ...]:
        """Where a model stands under the attack of one case."""
        return standings_of(outcome, self.opponents, self.settings.gate)

    def ranks(self, rows: Sequence[Row], expected: Collection[str]) -> Ranks:
        """All ranks, from what came back of the cases that were to run."""
        ranked = {
            group: cases
            for group, cases in self.planned.items()
            if group.several or self.opponents.get(group.dataset)
        }
        found = places(ranked, expected, rows, self.opponents, self.settings.gate)
        of_cases = {
            row.node_id: self.standings_of(row.outcome) for row in rows if row.outcome is not None
        }
        return Ranks(
            places=tuple(found),
            comparisons=tuple(comparisons(found)),
            of_cases=of_cases,
            notes=self.notes,
        )

    def verdicts(self, ranks: Ranks, stopped: bool) -> list[RankVerdict]:
        """What the limits say, for each group that has one and of which a case was to run.

        Args:
            ranks: of the run.
            stopped: whether the run ended before its end, and is red for that.
        """
        by_group = {place.group: place for place in ranks.places}
        verdicts = []
        for group, place in by_group.items():
            limit = limit_of(group, self.settings.rank_limits)
            if limit is None:
                continue
            rivals = [group] if self.opponents else _same_place(group, self.planned)
            left_out = sum(
                by_group[each].deselected if each in by_group else len(self.planned[each])
                for each in rivals
            )
            cut_short = stopped and any(by_group[each].lost for each in rivals if each in by_group)
            verdicts.append(_verdict(place, limit, ranks, left_out, cut_short, self.settings.shard))
        return verdicts


def prepare(settings: Settings, cases: Sequence[Case]) -> Rankings:
    """Find the leaderboards and check everything that is known before the run.

    Args:
        settings: in force.
        cases: that the run has; none where the plugin's cases are left out.

    Raises:
        UsageError, DataError: a leaderboard or a limit is wrong.
    """
    planned = _grouped(settings.cases(), settings)
    _check_limits(settings, list(planned))
    if not (settings.against and cases):
        return Rankings(settings=settings, planned=planned, opponents={})
    names = {case.dataset for case in cases}
    sources = [source for source in settings.datasets if source.name in names]
    try:
        opponents, notes = find_opponents(settings.against, sources, settings.places)
        check_attacks(opponents, cases)
    except UsageError as error:
        if not _chosen_anew(settings):
            raise
        notes = (f"no ranks, {error}",)
        return Rankings(settings=settings, planned=planned, opponents={}, notes=notes)
    rankings = Rankings(settings=settings, planned=planned, opponents=opponents, notes=notes)
    for group in _grouped(cases, settings):
        limit = limit_of(group, settings.rank_limits)
        if limit is not None:
            _check_can_be_judged(group, limit, rankings)
    return rankings


def _chosen_anew(settings: Settings) -> bool:
    """Whether the ini file asks for ranks, and the command line for cases it does not know of."""
    origins = settings.origins
    asked = {origins["grb_rank_against"], origins["grb_min_rank"]}
    return COMMAND_LINE not in asked and any(origins[each] == COMMAND_LINE for each in SELECTING)


def _grouped(cases: Sequence[Case], settings: Settings) -> dict[Group, list[Case]]:
    groups: dict[Group, list[Case]] = {}
    for case in cases:
        label = settings.model(case.model).label if settings.models else ""
        group = Group(label, case.dataset, case.difficulty, several=bool(case.model))
        groups.setdefault(group, []).append(case)
    return groups


def _same_place(group: Group, planned: Mapping[Group, object]) -> list[Group]:
    """The group, and those of the other models on the same dataset at the same difficulty."""
    where = (group.dataset, group.difficulty)
    return [each for each in planned if (each.dataset, each.difficulty) == where]


def _check_limits(settings: Settings, groups: Sequence[Group]) -> None:
    """Refuse limits that match nothing, and limits where nothing is ranked.

    Limits of the ini file may be about datasets and models that today's command line leaves out.
    """
    limits = settings.rank_limits
    if not limits or not groups:
        return
    if not settings.against and len(settings.models) < 2:
        if settings.origins["grb_min_rank"] == INI and settings.origins["grb_model"] != INI:
            return
        raise UsageError(
            f"{GATE_FLAG} needs something to rank against; add {FLAG}=published, {FLAG}=zoo or "
            f"another --grb-model"
        )
    if settings.origins["grb_min_rank"] == INI:
        known = (*datasets.known_names(), *datasets.GRAPH_SETS)
        names = dict.fromkeys([*(each.dataset for each in groups), *known])
        labels = dict.fromkeys(each.model for each in groups)
        groups = [
            Group(label, name, level)
            for label in labels
            for name in names
            for level in DIFFICULTIES
        ]
        limits = tuple(_for_any(limit, settings.origins) for limit in limits)
    check_rank_limits(limits, groups)


def _for_any(limit: RankLimit, origins: Mapping[str, str]) -> RankLimit:
    """A limit of the ini file without the model and dataset that the command line names anew."""
    label, at, rest = limit.pattern.rpartition("@")
    if at and origins["grb_model"] == COMMAND_LINE:
        label, at = "", ""
    dataset, slash, level = rest.rpartition("/")
    if slash and origins["grb_dataset"] == COMMAND_LINE:
        dataset = "*"
    return replace(limit, pattern=f"{label}{at}{dataset}{slash}{level}")


def _check_can_be_judged(group: Group, limit: RankLimit, rankings: Rankings) -> None:
    """Refuse a limit for what no leaderboard, or not each of them, can rank."""
    boards = rankings.opponents.get(group.dataset, ())
    if not boards:
        raise UsageError(
            f"{GATE_FLAG} {limit.pattern!r} is about {group.id}, and {FLAG} names no leaderboard "
            f"of {group.dataset}"
        )
    for each in boards:
        if not any(knows(each.board, case) for case in rankings.planned[group]):
            raise UsageError(
                f"{GATE_FLAG} {limit.pattern!r} is about {group.id}, and none of its selected "
                f"attacks is on the leaderboard {each.board.name}, which has "
                f"{', '.join(each.board.attacks)} at {', '.join(each.board.difficulties)}"
            )


def _verdict(
    place: Place,
    limit: RankLimit,
    ranks: Ranks,
    left_out: int,
    cut_short: bool,
    shard: Shard | None,
) -> RankVerdict:
    group = place.group

    def verdict(passed: bool | None, message: str, rank: int | None = None) -> RankVerdict:
        return RankVerdict(group=group, limit=limit.rank, passed=passed, message=message, rank=rank)

    if shard is not None:
        return verdict(
            None,
            f"rank on {group.id} not judged: part {shard} of a run; python -m grb_check merge "
            f"judges it",
        )
    if left_out:
        cases = f"{left_out} case{' was' if left_out == 1 else 's were'}"
        return verdict(None, f"rank on {group.id} not judged: {cases} deselected")
    if cut_short:
        return verdict(None, f"rank on {group.id} not judged: the run stopped before its end")
    found = _found(place, ranks)
    if place.why_none or not found:
        why = place.why_none or "no other model of the run has a rank there"
        return verdict(
            False, f"no rank: {why}; limit {limit.rank} by {limit.pattern!r}. {group.id}"
        )
    rank = max(each for each, _ in found)
    sign = "<=" if rank <= limit.rank else ">"
    told = "; ".join(text for _, text in found)
    return verdict(
        rank <= limit.rank,
        f"rank {rank} {sign} limit {limit.rank} by {limit.pattern!r}: {told}. {group.id}",
        rank,
    )


def _found(place: Place, ranks: Ranks) -> list[tuple[int, str]]:
    """The model's rank on each leaderboard, or else among the run's models, and its sentence."""
    if place.standings:
        return [(each.rank, sentence(each)) for each in place.standings]
    name = f"{place.group.dataset}/{place.group.difficulty}"
    return [
        (model.rank, f"models by weighted accuracy: {listed(comparison.models)}")
        for comparison in ranks.comparisons
        if comparison.group == name and not comparison.attack
        for model in comparison.models
        if model.name == place.name
    ]
