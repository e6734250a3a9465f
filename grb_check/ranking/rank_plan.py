"""Ranks of a run: what is checked before its cases run, and whether limits on ranks are met."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import Row
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import Shard
from grb_check.datasets import Places, Source
from grb_check.errors import UsageError
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import FLAG as LIMIT_FLAG
from grb_check.gate.rank_limits import Group, RankLimit, limit_of
from grb_check.ranking.boards.board import Board
from grb_check.ranking.comparison_models import (
    FLAG,
    ComparisonModels,
    check_attacks,
    check_data,
    find_boards,
)
from grb_check.ranking.run_ranks import (
    GroupStandings,
    Ranking,
    Ranks,
    group_standings,
    rankings,
    standings_of,
)
from grb_check.ranking.standing import Standing


@dataclass(frozen=True, kw_only=True)
class RankRequest:
    """The ranks that the options of a run ask for.

    Attributes:
        models: to rank against.
        limits: on ranks.
        optional: whether leaderboards that cannot be used are noted and not refused, as when the
            ini file names them and the command line selects other cases.
        planned: the cases that the options select, by model, dataset and difficulty.
        sources: the datasets that the options select.
        places: where leaderboards are stored, and the split in force.
        gate: has the clean floor, below which a model is not ranked.
        shard: the part of a run that this is; None for a whole run.
    """

    models: ComparisonModels
    limits: tuple[RankLimit, ...]
    optional: bool
    planned: Mapping[Group, Sequence[Case]]
    sources: Sequence[Source]
    places: Places
    gate: Gate
    shard: Shard | None = None


@dataclass(frozen=True, kw_only=True)
class RankVerdict:
    """Whether the limit on a rank is met by one model on one dataset at one difficulty.

    Attributes:
        group: model, dataset and difficulty.
        limit: on its rank.
        passed: None if it cannot be judged, because cases were left out, the run stopped, or this
            is a part of a run.
        reason: why it is not judged, or why the model is not ranked; empty otherwise.
        standings: on each leaderboard.
        ranking: among the run's models, if there is no leaderboard.
        rank: the worst of these; None without one.
    """

    group: Group
    limit: RankLimit
    passed: bool | None
    reason: str = ""
    standings: tuple[Standing, ...] = ()
    ranking: Ranking | None = None
    rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class RankPlan:
    """Facts about ranks that are known before the cases of a run.

    Attributes:
        request: the ranks that the options ask for.
        boards: the leaderboards of each dataset.
        notes: on what they lack.
    """

    request: RankRequest
    boards: Mapping[str, Sequence[Board]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def check_data(self, dataset: str, fingerprint: str) -> None:
        """Check that leaderboards were measured on the data that was loaded.

        Raises:
            UsageError: see `comparison_models.check_data`.
        """
        check_data(self.boards.get(dataset, ()), dataset, fingerprint)

    def standings_of(self, outcome: Outcome) -> tuple[Standing, ...]:
        """Return the standings of a model under the attack of one case."""
        return standings_of(outcome, self.boards, self.request.gate)

    def ranks(self, rows: Sequence[Row], expected: Collection[str]) -> Ranks:
        """Return all ranks of the run.

        Args:
            rows: of the cases that were reported.
            expected: node ids that were to run.
        """
        ranked = {
            group: cases
            for group, cases in self.request.planned.items()
            if group.several or self.boards.get(group.dataset)
        }
        groups = group_standings(ranked, expected, rows, self.boards, self.request.gate)
        return Ranks(
            groups=tuple(groups),
            rankings=tuple(rankings(groups)),
            of_cases={row.node_id: self.standings_of(row.outcome) for row in rows if row.outcome},
            notes=self.notes,
        )

    def verdicts(self, ranks: Ranks, *, stopped: bool) -> list[RankVerdict]:
        """Judge each group that has a limit and of which a case was to run.

        Args:
            ranks: of the run.
            stopped: whether the run stopped before its end, and fails for that.
        """
        found = [(each, limit_of(each.group, self.request.limits)) for each in ranks.groups]
        return [
            self._verdict(each, limit, ranks, stopped=stopped)
            for each, limit in found
            if limit is not None
        ]

    def _verdict(
        self, own: GroupStandings, limit: RankLimit, ranks: Ranks, *, stopped: bool
    ) -> RankVerdict:
        unjudged = self._unjudged(own.group, ranks, stopped=stopped)
        if unjudged:
            return RankVerdict(group=own.group, limit=limit, passed=None, reason=unjudged)
        ranking = None if own.standings else _ranking_of(own, ranks)
        if own.unranked or (not own.standings and ranking is None):
            reason = own.unranked or "no other model of the run is ranked there"
            return RankVerdict(group=own.group, limit=limit, passed=False, reason=reason)
        among_run = ranking.models if ranking is not None else ()
        rank = max(
            [each.rank for each in own.standings]
            + [each.rank for each in among_run if each.name == own.name]
        )
        return RankVerdict(
            group=own.group,
            limit=limit,
            passed=rank <= limit.rank,
            standings=own.standings,
            ranking=ranking,
            rank=rank,
        )

    def _unjudged(self, group: Group, ranks: Ranks, *, stopped: bool) -> str:
        """Return why a rank cannot be judged; empty if it can.

        A rank among the run's models needs the cases of all of them.
        """
        if self.request.shard is not None:
            return f"part {self.request.shard} of a run; python -m grb_check merge judges it"
        reported = {each.group: each for each in ranks.groups}
        where = (group.dataset, group.difficulty)
        needed = [group]
        if not self.boards:
            planned = self.request.planned
            needed = [each for each in planned if (each.dataset, each.difficulty) == where]
        deselected = sum(
            reported[each].deselected if each in reported else len(self.request.planned[each])
            for each in needed
        )
        if deselected:
            return f"{deselected} case{' was' if deselected == 1 else 's were'} deselected"
        if stopped and any(reported[each].lost for each in needed if each in reported):
            return "the run stopped before its end"
        return ""


def prepare(request: RankRequest, cases: Sequence[Case]) -> RankPlan:
    """Find the leaderboards and check all that is known before the run.

    Args:
        request: the ranks that the options ask for.
        cases: of the run; none if the plugin's cases are left out.

    Raises:
        UsageError, DataError: a leaderboard or a limit is wrong.
    """
    if not (request.models and cases):
        return RankPlan(request=request)
    names = {case.dataset for case in cases}
    sources = [source for source in request.sources if source.name in names]
    try:
        boards, notes = find_boards(request.models, sources, request.places)
        check_attacks(boards, cases)
    except UsageError as error:
        if not request.optional:
            raise
        return RankPlan(request=request, notes=(f"no ranks, {error}",))
    for group, planned in request.planned.items():
        limit = limit_of(group, request.limits)
        if limit is not None and not set(planned).isdisjoint(cases):
            _check_can_be_judged(group, planned, limit, boards.get(group.dataset, ()))
    return RankPlan(request=request, boards=boards, notes=notes)


def _check_can_be_judged(
    group: Group, planned: Sequence[Case], limit: RankLimit, boards: Sequence[Board]
) -> None:
    """Refuse a limit on a group that no leaderboard, or not each of them, can rank."""
    about = f"{LIMIT_FLAG} {limit.pattern!r} is about {group.id}, and"
    if not boards:
        raise UsageError(
            f"{about} {FLAG} names no leaderboard of {group.dataset}; name one, or change the "
            f"pattern"
        )
    for board in boards:
        if not any(map(board.has, planned)):
            raise UsageError(
                f"{about} none of its selected attacks is on the leaderboard {board.name}, which "
                f"has {board.contents}; select one of these, or change the pattern"
            )


def _ranking_of(own: GroupStandings, ranks: Ranks) -> Ranking | None:
    """Return the weighted ranking of the run's models that the model is in, if there is one."""
    name = f"{own.group.dataset}/{own.group.difficulty}"
    for ranking in ranks.rankings:
        names = [each.name for each in ranking.models]
        if ranking.group == name and not ranking.attack and own.name in names:
            return ranking
    return None
