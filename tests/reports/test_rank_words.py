"""Ranks in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grb_check.gate.rank_limits import Group, RankLimit
from grb_check.ranking.orders import Ranked
from grb_check.ranking.rank_plan import RankVerdict
from grb_check.ranking.run_ranks import GroupStandings, Ranking, Ranks
from grb_check.ranking.standing import Neighbour, Standing
from grb_check.reports.rank_words import (
    case_properties,
    comparison_line,
    ordinal,
    place_line,
    sentence,
    suite_properties,
    verdict_message,
)
from grb_check.reports.recording import ranks_record

STANDING = Standing(
    board="zoo",
    dataset="grb-cora",
    difficulty="full",
    attack="",
    figure=0.809,
    rank=3,
    competitors=17,
    better=Neighbour(name="SGCN+LN", figure=0.812),
    worse=Neighbour(name="R-GCN", figure=0.804),
    attacks=5,
    missing=(),
)
GROUP = GroupStandings(group=Group("net", "grb-cora", "full"), name="net", standings=(STANDING,))
SEVERAL = replace(GROUP, group=replace(GROUP.group, several=True))
NONE = replace(SEVERAL, standings=(), unranked="it was ill")
RANKING = Ranking(
    group="grb-cora/full",
    attack="",
    attacks=2,
    models=(Ranked(1, "a", 0.8), Ranked(1, "b", 0.8), Ranked(3, "c", 0.7)),
)


def lines(group: GroupStandings) -> list[str]:
    """The standings of a group in words."""
    record = ranks_record([], Ranks(groups=(group,)), [])
    return [place_line(each, group.group.several) for each in record.standings]


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (12, "12th"), (21, "21st"), (111, "111th")],
)
def test_ordinals(number: int, text: str) -> None:
    """The teens are irregular."""
    assert ordinal(number) == text


def test_a_line_says_rank_neighbours_and_figure() -> None:
    """The model is named if a run has several."""
    told = "3rd of 17 (zoo), between SGCN+LN 81.2% and R-GCN 80.4% (weighted accuracy 80.9%)"
    assert lines(GROUP) == [f"rank on grb-cora/full: {told}"]
    assert lines(SEVERAL) == [f"rank of net on grb-cora/full: {told}"]
    assert lines(NONE) == ["no rank of net on grb-cora/full: it was ill"]


def test_a_line_on_a_published_leaderboard_names_the_origin_of_figures() -> None:
    """GRB's settings, our perturbations, and which share of the attacks is missing."""
    published = replace(STANDING, board="published", attacks=3, missing=("injection/a", "b/c"))
    assert lines(replace(GROUP, standings=(published,))) == [
        "where this would stand on grb-cora/full: 3rd of 17 (published), between SGCN+LN 81.2% and "
        "R-GCN 80.4% (weighted accuracy 80.9% over 3 of 5 attacks, theirs from mean accuracies and "
        "so a little too high; settings GRB's, perturbations ours)"
    ]


@pytest.mark.parametrize(
    ("better", "worse", "text"),
    [(False, True, "before R-GCN"), (True, False, "after SGCN+LN"), (False, False, "level with")],
)
def test_ends_have_one_neighbour(better: bool, worse: bool, text: str) -> None:
    """Or none, if all are equal."""
    end = replace(
        STANDING,
        better=STANDING.better if better else None,
        worse=STANDING.worse if worse else None,
    )
    assert f"(zoo), {text}" in sentence(end)


def test_properties_hold_rank_competitors_and_neighbours() -> None:
    """Builtin types; properties of further leaderboards contain their name."""
    other = replace(STANDING, board="mine", rank=1, better=None)
    assert case_properties([STANDING, other]) == [
        ("grb.rank", 3),
        ("grb.rank_of", 17),
        ("grb.rank_board", "zoo"),
        ("grb.rank_after", "SGCN+LN 0.8120"),
        ("grb.rank_before", "R-GCN 0.8040"),
        ("grb.rank.mine", 1),
        ("grb.rank_of.mine", 17),
        ("grb.rank_before.mine", "R-GCN 0.8040"),
    ]
    assert case_properties([]) == []
    under = replace(RANKING, attack="injection/rnd")
    ranks = Ranks(groups=(SEVERAL, NONE), rankings=(RANKING, under))
    assert suite_properties(ranks_record([], ranks, [])) == {
        "grb.rank.zoo.net@grb-cora/full": (
            "3 of 17, 0.8090, after SGCN+LN 0.8120, before R-GCN 0.8040"
        ),
        "grb.rank.run.grb-cora/full": "1 a 0.8000, 1 b 0.8000, 3 c 0.7000",
        "grb.rank.run.grb-cora/full/injection/rnd": "1 a 0.8000, 1 b 0.8000, 3 c 0.7000",
    }


def test_models_are_listed_with_shared_ranks() -> None:
    """The best first."""
    (comparison,) = ranks_record([], Ranks(rankings=(RANKING,)), []).comparisons
    assert comparison_line(comparison) == (
        "models on grb-cora/full by weighted accuracy over 2 attacks: 1. a 80.0%, 1. b 80.0%, "
        "3. c 70.0%"
    )


VERDICT = RankVerdict(
    group=Group("net", "grb-cora", "full"),
    limit=RankLimit("*/full", 2),
    passed=False,
    standings=(STANDING,),
    rank=3,
)


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (
            VERDICT,
            "rank 3 > limit 2 by '*/full': 3rd of 17 (zoo), between SGCN+LN 81.2% and R-GCN 80.4% "
            "(weighted accuracy 80.9%). grb-cora/full",
        ),
        (
            replace(VERDICT, passed=True, standings=(), ranking=RANKING, rank=1),
            "rank 1 <= limit 2 by '*/full': models by weighted accuracy: 1. a 80.0%, 1. b 80.0%, "
            "3. c 70.0%. grb-cora/full",
        ),
        (
            replace(VERDICT, standings=(), rank=None, reason="it was ill"),
            "no rank: it was ill; limit 2 by '*/full'. grb-cora/full",
        ),
        (
            replace(VERDICT, passed=None, standings=(), rank=None, reason="the run stopped"),
            "rank on grb-cora/full not judged: the run stopped",
        ),
    ],
)
def test_a_verdict_says_rank_and_limit_or_the_reason(verdict: RankVerdict, message: str) -> None:
    """The same in terminal and JSON."""
    assert verdict_message(verdict) == message
    (record,) = ranks_record([], Ranks(), [verdict]).verdicts
    assert (record.group, record.limit, record.message) == ("grb-cora/full", 2, message)
