"""Ranks in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grb_check.ranking.orders import RankedEntry
from grb_check.ranking.ranks import Standing
from grb_check.reports.rank_words import comparison_lines, sentence, standing_line

STANDING = Standing(
    board="zoo",
    model="net",
    label="",
    dataset="grb-cora",
    difficulty="full",
    attack="",
    figure=0.809,
    rank=3,
    competitors=17,
    better=RankedEntry(2, "SGCN+LN", 0.812),
    worse=RankedEntry(3, "R-GCN", 0.804),
    attacks=5,
    missing=(),
)


def test_a_line_on_a_published_leaderboard_names_the_origin_of_figures() -> None:
    """GRB's settings, our perturbations, and which share of the attacks is missing."""
    published = replace(STANDING, board="published", attacks=3, missing=("injection/a", "b/c"))
    assert standing_line(published) == (
        "where this would stand on grb-cora/full: 3rd of 17 (published), between SGCN+LN 81.2% and "
        "R-GCN 80.4% (weighted accuracy 80.9% over 3 of 5 attacks, theirs from mean accuracies and "
        "so a little too high; settings GRB's, perturbations ours)"
    )
    assert standing_line(replace(published, label="net")).startswith("where net would stand on")
    assert standing_line(replace(STANDING, label="net")).startswith("rank of net on grb-cora/full")


def test_the_models_of_a_run_are_listed_for_each_difficulty() -> None:
    """With the number of attacks; orders under single attacks are left to the reports."""
    order = (RankedEntry(1, "a", 0.8), RankedEntry(2, "b", 0.7))
    assert comparison_lines({"tiny/easy": order, "tiny/easy/injection/rnd": order}) == [
        "models on tiny/easy by weighted accuracy over 1 attack: 1. a 80.0%, 2. b 70.0%"
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
