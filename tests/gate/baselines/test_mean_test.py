"""The test agrees with scipy's, its interval with its p-value, and its power with simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grb_check.gate.baselines.mean_test import MAX_REPEATS, MeanTest, mean_test

LOSSES = st.lists(st.floats(-20, 20), min_size=2, max_size=30)
LEVELS = st.floats(0.9, 0.9999)


@given(losses=LOSSES, margin=st.floats(0, 5))
def test_the_test_is_students(losses: list[float], margin: float) -> None:
    """One-sided, of the losses against the margin."""
    result = mean_test(losses, margin)
    if result.deviation < 1e-6:
        return
    known = stats.ttest_1samp(losses, margin, alternative="greater")
    assert result.statistic == pytest.approx(known.statistic, rel=1e-6, abs=1e-6)
    assert result.p == pytest.approx(known.pvalue, rel=1e-6, abs=1e-9)
    if abs(result.p - 0.05) > 1e-9:
        assert (result.low(0.95) > margin) == (result.p < 0.05)
    assert result.low(0.95) <= result.mean <= result.high(0.95)


def test_losses_that_do_not_vary_are_certain() -> None:
    """A deterministic training: its loss is beyond the margin or within it."""
    assert mean_test([3.0, 3.0], 2.0).p == 0.0
    assert mean_test([1.0, 1.0], 2.0).p == 1.0
    assert mean_test([3.0, 3.0], 2.0).statistic == math.inf
    assert mean_test([3.0, 3.0], 2.0, floor=0.5).deviation == 0.5


@given(losses=LOSSES, level=LEVELS)
def test_the_detectable_loss_is_detected_in_80_percent_of_runs(
    losses: list[float], level: float
) -> None:
    """By the noncentral t distribution, as scipy.stats has it."""
    result = mean_test(losses, 2.0, floor=0.1)
    shift = (result.detectable(level) - 2.0) / result.deviation * math.sqrt(result.n)
    power = stats.nct.sf(stats.t.ppf(level, result.n - 1), result.n - 1, shift)
    assert power == pytest.approx(0.8, abs=0.01)


def test_the_detectable_loss_in_simulated_runs() -> None:
    """Losses of that mean are beyond the margin in about 80 % of 4,000 runs."""
    rng = np.random.default_rng(0)
    true = MeanTest(mean=0.0, deviation=1.5, n=10, margin=2.0).detectable(0.975)
    runs = rng.normal(true, 1.5, (4000, 10)).tolist()
    shown = sum(mean_test(losses, 2.0).low(0.975) > 2.0 for losses in runs)
    assert shown / 4000 == pytest.approx(0.8, abs=0.03)


def test_repeats_that_decide_in_simulated_runs() -> None:
    """Whatever the true loss: about 80 % of new runs of that size are decided."""
    rng = np.random.default_rng(0)
    decided = []
    for true in rng.uniform(-2, 6, 400):
        first = mean_test(rng.normal(true, 2.0, 8).tolist(), 2.0)
        if first.low(0.99) > 2.0 or first.high(0.95) <= 2.0:
            continue
        needed = first.repeats_needed(0.99, 0.95)
        again = mean_test(rng.normal(true, 2.0, needed or MAX_REPEATS).tolist(), 2.0)
        decided.append(again.low(0.99) > 2.0 or again.high(0.95) <= 2.0)
    assert len(decided) > 100
    assert np.mean(decided) == pytest.approx(0.8, abs=0.08)


def test_a_loss_of_the_margin_takes_more_than_any_number() -> None:
    """It can be neither shown nor excluded."""
    assert MeanTest(mean=2.0, deviation=0.0, n=2, margin=2.0).repeats_needed(0.99, 0.95) is None
