"""Ranks are checked before the cases of a run, and limits on them after the cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from boards import board_of, write_board

from grb_check.cases.case import Case
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.errors import UsageError
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import Group, RankLimit
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.ranking.rank_plan import RankPlan, RankRequest, prepare
from grb_check.ranking.run_ranks import GroupStandings, Ranks

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
    with pytest.raises(UsageError, match="is about tiny/easy"):
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
