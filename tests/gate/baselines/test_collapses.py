"""Collapsed trainings: found far below the median, and compared by their numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from grb_check.gate.baselines.collapses import MIN_REPEATS, collapsed, more_frequent
from grb_check.gate.baselines.compare import Collapses

STEADY = [60.0, 61.0, 59.5, 60.5, 62.0, 58.0, 60.0, 61.5, 60.0, 59.0]


def test_a_repeat_at_half_the_accuracy_has_collapsed() -> None:
    """Its place is given; the others vary as trainings do."""
    assert collapsed([*STEADY, 30.0], 0.1) == {10}
    assert collapsed(STEADY, 0.1) == set()


def test_repeats_that_all_vary_widely_have_not_collapsed() -> None:
    """The distance is measured in their own spread."""
    assert collapsed([20.0, 70.0, 40.0, 55.0, 30.0, 65.0, 25.0, 60.0], 0.1) == set()


def test_a_single_target_of_a_few_is_no_collapse() -> None:
    """The step of the accuracy counts."""
    accuracies = [100.0] * 15 + [80.0] * 5
    assert collapsed(accuracies, 20.0) == set()
    assert len(collapsed(accuracies, 1.0)) == 5


def test_a_few_repeats_show_no_collapse() -> None:
    """One of them would decide the spread."""
    assert collapsed([60.0, 60.0, 60.0, 60.0, 60.0, 60.0, 0.0], 0.1) == set()
    assert MIN_REPEATS == 8


@given(st.lists(st.floats(0, 100), min_size=8, max_size=40), st.floats(-5, 5))
def test_fewer_than_half_collapse_and_a_shift_changes_nothing(
    accuracies: list[float], shift: float
) -> None:
    """The median itself is never far below the median."""
    collapses = collapsed(accuracies, 0.1)
    assert 2 * len(collapses) < len(accuracies)
    whole = [float(round(accuracy)) for accuracy in accuracies]
    assert collapsed(whole, 0.1) == collapsed([accuracy + round(shift) for accuracy in whole], 0.1)


@pytest.mark.parametrize(
    ("before", "after", "p"),
    [(0, 4, 0.0225), (0, 5, 0.0094), (1, 6, 0.0215), (3, 3, 1.0)],
    ids=str,
)
def test_more_collapses_are_tested_by_boschloos_test(before: int, after: int, p: float) -> None:
    """Among 20 trainings on each side."""
    assert more_frequent(Collapses(before=before, after=after, n=20)) == pytest.approx(p, abs=0.01)


@settings(max_examples=20, deadline=None)
@given(st.integers(8, 20), st.data())
def test_the_test_is_at_least_as_powerful_as_fishers(n: int, data: st.DataObject) -> None:
    """One-sided: more in this run."""
    before, after = (data.draw(st.integers(0, n)) for _ in range(2))
    if after <= before:
        return
    table = [[after, n - after], [before, n - before]]
    fisher = stats.fisher_exact(table, alternative="greater").pvalue
    assert more_frequent(Collapses(before=before, after=after, n=n)) <= fisher + 1e-5
