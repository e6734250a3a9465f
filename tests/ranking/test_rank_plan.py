"""Ranks are checked before the cases of a run, and limits on them after the cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from boards import board_of, write_board

from grb_check.cases.case import Case
from grb_check.cases.shards import Shard
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.errors import UsageError
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import Group, RankLimit
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.ranking.rank_plan import RankPlan, RankRequest, prepare
from grb_check.ranking.run_ranks import GroupStandings, Ranks
from grb_check.reports.rank_words import verdict_message

ROWS = {"injection/rnd": (0.5,), NO_ATTACK: (0.8,)}
NET = Group("net", "tiny", "full")
CASES = (Case("tiny", "full", "injection", "rnd"), Case("tiny", "full", "modification", "dice"))
NOTHING = ComparisonModels()


@pytest.fixture
def request_(tmp_path: Path) -> RankRequest:
    """One model on `tiny`, full, under two attacks, and a measured leaderboard of that."""
    board = replace(board_of({"GCN": ROWS}), split="grb")
    write_board(board, tmp_path / "leaderboards" / "tiny.json")
    return RankRequest(
        models=ComparisonModels(zoo=True),
        limits=(RankLimit("tiny/full", 2),),
        optional=False,
        planned={NET: CASES},
        sources=[Source("tiny", GRB_FILES, tmp_path)],
        places=Places(home=tmp_path),
        gate=Gate(),
    )


def test_a_run_without_cases_reads_no_leaderboard(request_: RankRequest, tmp_path: Path) -> None:
    """As a run of single files, with a model in the ini file."""
    nowhere = replace(request_, places=Places(home=tmp_path / "nowhere"))
    assert prepare(nowhere, []).boards == {}
    assert list(prepare(request_, CASES).boards) == ["tiny"]


def test_leaderboards_that_are_optional_are_noted_when_they_cannot_be_used(
    request_: RankRequest, tmp_path: Path
) -> None:
    """Others are refused."""
    nowhere = replace(request_, places=Places(home=tmp_path / "nowhere"))
    found = prepare(replace(nowhere, optional=True), CASES)
    assert found.boards == {}
    assert "there is no measured leaderboard of tiny" in found.notes[0]
    found = prepare(replace(request_, optional=True, planned={NET: CASES[1:]}), CASES[1:])
    assert "none of the selected cases" in found.notes[0]
    with pytest.raises(UsageError, match="no measured leaderboard"):
        prepare(nowhere, CASES)


def test_a_limit_that_cannot_be_judged_is_refused(request_: RankRequest) -> None:
    """A leaderboard that lacks the difficulty, or none of the dataset."""
    easy = Case("tiny", "easy", "injection", "rnd")
    planned = {Group("net", "tiny", "easy"): [easy], NET: CASES}
    wide = replace(request_, limits=(RankLimit("*", 1),), planned=planned)
    with pytest.raises(UsageError, match="is about tiny/easy, and none of its selected attacks"):
        prepare(wide, [easy, *CASES])
    prepare(wide, CASES)
    other = Case("other", "full", "injection", "rnd")
    wide = replace(
        wide,
        planned={Group("net", "other", "full"): [other]},
        sources=[*request_.sources, Source("other", GRB_FILES, Path("other"))],
    )
    with pytest.raises(UsageError, match=r"is about other/full, and .* names no leaderboard of"):
        prepare(wide, [*CASES, other])


@pytest.mark.parametrize(
    ("own", "stopped", "passed", "message"),
    [
        (GroupStandings(group=NET, name="net", deselected=1), False, None, "1 case was deselected"),
        (
            GroupStandings(group=NET, name="net", lost=("x",), unranked="lost"),
            True,
            None,
            "stopped before",
        ),
        (
            GroupStandings(group=NET, name="net", lost=("x",), unranked="lost"),
            False,
            False,
            "lost; limit 2",
        ),
        (
            GroupStandings(group=NET, name="net", unranked="ill"),
            True,
            False,
            "no rank: ill; limit 2 by",
        ),
        (GroupStandings(group=NET, name="net"), False, False, "no other model of the run is"),
    ],
)
def test_a_limit_without_a_rank_is_never_met(
    request_: RankRequest,
    own: GroupStandings,
    *,
    stopped: bool,
    passed: bool | None,
    message: str,
) -> None:
    """It fails with the reason, or is not judged if the user or a stop left cases out."""
    plan = prepare(request_, CASES)
    (verdict,) = plan.verdicts(Ranks(groups=(own,)), stopped=stopped)
    assert (verdict.passed, verdict.rank) == (passed, None)
    assert message in verdict_message(verdict)


def two_models(request: RankRequest) -> RankPlan:
    planned = {replace(NET, model=label, several=True): CASES for label in ("net", "other")}
    return prepare(replace(request, models=NOTHING, planned=planned), CASES)


def test_a_rank_among_models_is_not_judged_if_a_stop_left_others_out(request_: RankRequest) -> None:
    """It would be a rank among those that finished before the run stopped."""
    plan = two_models(request_)
    here, there = plan.request.planned
    found = Ranks(
        groups=(
            GroupStandings(group=here, name="net"),
            GroupStandings(group=there, name="other", lost=("x",), unranked="lost"),
        )
    )
    assert [each.passed for each in plan.verdicts(found, stopped=True)] == [None, None]
    assert [each.passed for each in plan.verdicts(found, stopped=False)] == [False, False]


def test_a_rank_among_models_is_not_judged_if_others_were_deselected(request_: RankRequest) -> None:
    """Without a leaderboard, all models have to run all their cases."""
    plan = two_models(request_)
    own = GroupStandings(group=next(iter(plan.request.planned)), name="net")
    (verdict,) = plan.verdicts(Ranks(groups=(own,)), stopped=False)
    assert verdict.passed is None
    message = "rank on net@tiny/full not judged: 2 cases were deselected"
    assert verdict_message(verdict) == message


def test_a_part_of_a_run_judges_no_rank(request_: RankRequest) -> None:
    """It says which part it is, and what judges."""
    plan = prepare(replace(request_, shard=Shard(2, 4)), CASES)
    own = GroupStandings(group=NET, name="net")
    (verdict,) = plan.verdicts(Ranks(groups=(own,)), stopped=False)
    assert verdict.passed is None
    message = "part 2/4 of a run; python -m grb_check merge judges it"
    assert message in verdict_message(verdict)
