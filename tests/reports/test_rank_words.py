"""Ranks in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grb_check.gate.rank_limits import Group
from grb_check.ranking.run_ranks import GroupStandings
from grb_check.ranking.standing import Neighbour, Standing
from grb_check.reports.rank_words import (
    place_line,
    sentence,
)

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


def lines(group: GroupStandings) -> list[str]:
    """The standings of a group in words."""
    return [place_line(each, group.group.several) for each in group.places]


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
