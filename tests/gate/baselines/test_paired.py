"""The two tests agree with scipy's, and their intervals with their p-values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grb_check.gate.baselines.paired import MAX_REPEATS, paired_test, sign_test

COUNTS = st.integers(0, 60)
LOSSES = st.lists(st.floats(-20, 20), min_size=2, max_size=30)


@given(lost=COUNTS, won=COUNTS)
def test_the_sign_test_is_the_exact_binomial_one(lost: int, won: int) -> None:
    """One-sided; p is 1 if nothing was lost."""
    found = sign_test(lost, won)
    if lost + won:
        exact = stats.binomtest(lost, lost + won, alternative="greater")
        assert found.p == pytest.approx(exact.pvalue, abs=1e-12)
    else:
        assert found.p == 1.0


@given(lost=COUNTS, won=COUNTS, level=st.floats(0.8, 0.9999))
def test_the_interval_of_targets_agrees_with_the_p_value(lost: int, won: int, level: float) -> None:
    """A loss of 0 is outside the interval exactly if p is below its level."""
    found = sign_test(lost, won)
    low = found.low(1000, level)
    assert low <= 100.0 * (lost - won) / 1000 + 1e-9
    if lost + won and abs(found.p - (1 - level)) > 1e-9:
        assert (low > 0) == (found.p < 1 - level)


@given(losses=LOSSES, margin=st.floats(0, 5))
def test_the_paired_test_is_students(losses: list[float], margin: float) -> None:
    """One-sided, of the losses against the margin."""
    found = paired_test(losses, margin)
    if found.deviation < 1e-6:
        return
    known = stats.ttest_1samp(losses, margin, alternative="greater")
    assert found.statistic == pytest.approx(known.statistic, rel=1e-6, abs=1e-6)
    assert found.p == pytest.approx(known.pvalue, rel=1e-6, abs=1e-9)
    if abs(found.p - 0.05) > 1e-9:
        assert (found.low(0.95) > margin) == (found.p < 0.05)
    assert found.low(0.95) <= found.mean <= found.high(0.95)


def test_losses_that_do_not_vary_are_certain() -> None:
    """A deterministic training: its loss is beyond the margin or within it."""
    assert paired_test([3.0, 3.0], 2.0).p == 0.0
    assert paired_test([1.0, 1.0], 2.0).p == 1.0
    assert paired_test([3.0, 3.0], 2.0).statistic == math.inf


@given(losses=LOSSES)
def test_the_number_of_repeats_needed_is_the_smallest(losses: list[float]) -> None:
    """That number decides the same mean and deviation, and one fewer does not."""
    found = paired_test(losses, 2.0)
    needed = found.repeats_needed(0.01, 0.95)
    if needed is None:
        return
    assert found.n < needed <= MAX_REPEATS
    level = 0.99 if found.mean > 2.0 else 0.95
    gap = abs(found.mean - 2.0)

    def width(n: int) -> float:
        return float(stats.t.ppf(level, n - 1)) * found.deviation / math.sqrt(n)

    assert width(needed) < gap
    if needed - 1 > found.n:
        assert width(needed - 1) >= gap
