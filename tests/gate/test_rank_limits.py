"""Limits on ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import UsageError
from grb_check.gate.rank_limits import (
    WORST_RANK,
    Group,
    RankLimit,
    check_rank_limits,
    limit_of,
    parse_rank_limit,
)

GROUP = Group("net", "grb-cora", "full")


@pytest.mark.parametrize("line", ["grb-cora/full = 5", "grb-cora/full=5", " grb-cora/full =05 "])
def test_a_limit_is_a_pattern_and_a_rank(line: str) -> None:
    """Blanks are optional."""
    assert parse_rank_limit(line) == RankLimit("grb-cora/full", 5)


@pytest.mark.parametrize("line", ["grb-cora/full", "=5", "x/full=", "x/full=0", "x=-1", "x=2.5"])
def test_other_forms_are_refused(line: str) -> None:
    """The message quotes the line and gives the form."""
    with pytest.raises(UsageError, match=r"'.*' must have the form|is not a rank; give a whole"):
        parse_rank_limit(line)


@given(st.text(min_size=1, max_size=20), st.integers(1, WORST_RANK))
def test_every_pattern_and_rank_is_read_back(pattern: str, rank: int) -> None:
    """The last = is the separator."""
    if pattern.strip():
        assert parse_rank_limit(f"{pattern} = {rank}") == RankLimit(pattern.strip(), rank)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("grb-cora/full", True),
        ("net@grb-cora/full", True),
        ("*/full", True),
        ("net@*", True),
        ("*", True),
        ("gat@grb-cora/full", False),
        ("grb-cora/easy", False),
        ("grb-cora", False),
    ],
)
def test_a_pattern_matches_with_or_without_the_model(pattern: str, *, matches: bool) -> None:
    """Also if the run has one model, whose label is not in ids."""
    assert GROUP.matches(pattern) is matches
    assert Group("net", "grb-cora", "full", several=True).matches(pattern) is matches


def test_the_last_match_wins() -> None:
    """As for thresholds."""
    limits = [RankLimit("*", 9), RankLimit("*/full", 3), RankLimit("other/*", 1)]
    assert limit_of(GROUP, limits) == RankLimit("*/full", 3)
    assert limit_of(GROUP, limits[2:]) is None


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    """The message gives an example of a pattern that matches."""
    check_rank_limits([RankLimit("*/full", 1)], [GROUP])
    with pytest.raises(UsageError, match=r"'grb-cora/esay' matches no .* such as 'grb-cora/full'"):
        check_rank_limits([RankLimit("grb-cora/esay", 1)], [GROUP])
