"""Looks at a comparison that may go on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.verdicts import Comparison, ComparisonResult
from grb_check.gate.baselines.looks import (
    MOST,
    OF_A_CASE,
    OF_ALL_CASES,
    Look,
    decided,
    in_doubt,
    looks,
)
from grb_check.gate.baselines.mean_test import mean_test


def comparison(result: ComparisonResult, **other: object) -> Comparison:
    figures: dict[str, object] = {"method": "t", "unit": "repeats", "loss": 3.0, "margin": 2.0}
    return Comparison(result=result, text="", **(figures | other))  # type: ignore[arg-type]


@given(first=st.integers(1, 30), most=st.integers(1, 40))
def test_looks_rise_to_the_last_and_share_the_whole_error_rate(first: int, most: int) -> None:
    """Each has a part; one that cannot go on has all."""
    planned = looks(first, most)
    numbers = [look.repeats for look in planned]
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (first, max(first, most))
    assert all(look.share > 0 for look in planned)
    assert math.isclose(sum(look.share for look in planned), 1.0)


def test_the_default_looks() -> None:
    """Those that docs/explanation/gate.md names."""
    assert [look.repeats for look in looks(5)] == [5, 8, 13, 20]
    assert [round(look.share, 2) for look in looks(5)] == [0.36, 0.17, 0.23, 0.25]
    assert looks(MOST) == (Look(MOST, 1.0),)


@pytest.mark.parametrize(
    ("seen", "doubts", "last"),
    [
        (("fail",), OF_A_CASE, 5),
        (("inconclusive", "pass"), OF_A_CASE, 8),
        (("inconclusive",) * 4, OF_A_CASE, 20),
        (("within",), OF_A_CASE, 5),
        (("within", "inconclusive", "fail"), OF_ALL_CASES, 13),
        (("equal",), OF_ALL_CASES, 5),
    ],
)
def test_looks_end_with_the_doubt(
    seen: tuple[ComparisonResult, ...], doubts: tuple[ComparisonResult, ...], last: int
) -> None:
    """Or with the last look."""
    asked: list[int] = []

    def compare(look: Look) -> Comparison:
        asked.append(look.repeats)
        return comparison(seen[len(asked) - 1])

    assert decided(compare, looks(5), doubts).result == seen[-1]
    assert asked[-1] == last


@pytest.mark.parametrize("other", [{"unit": "targets"}, {"method": ""}])
def test_what_further_repeats_do_not_decide_is_in_no_doubt(other: dict[str, object]) -> None:
    """A finished model, and trainings that all have one seed."""
    assert in_doubt(comparison("inconclusive"), OF_A_CASE)
    assert not in_doubt(comparison("inconclusive", **other), OF_A_CASE)


def test_looks_together_err_no_more_often_than_their_rate() -> None:
    """Losses of exactly the margin are shown by one look or another in at most 5 %."""
    rng, alpha, runs = np.random.default_rng(0), 0.05, 2000
    planned = looks(5)
    shown = 0
    for losses in rng.normal(2.0, 3.0, size=(runs, MOST)):
        shown += any(
            mean_test(losses[: look.repeats].tolist(), 2.0).p < alpha * look.share
            for look in planned
        )
    assert shown / runs < alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)
    assert shown / runs > alpha / 4  # and the price is no larger than it must be
