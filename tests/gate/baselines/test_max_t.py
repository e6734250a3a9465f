"""The test of every single case: one error rate, whatever the number of cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from grb_check.gate.baselines.max_t import EXACT, FLIPS, max_test, sign_flips

Floats = NDArray[np.float64]

LOSSES = (
    st.integers(1, 6)
    .flatmap(lambda cases: arrays(np.int64, (8, cases), elements=st.integers(-80, 80)))
    .map(lambda drawn: drawn / 10.0)
)


def no_steps(losses: Floats) -> Floats:
    return np.zeros(losses.shape[1])


@pytest.mark.parametrize("n", [2, 8, EXACT])
def test_all_sign_flips_are_made_of_a_few_repeats(n: int) -> None:
    """Each once, the one without a change first."""
    flips = sign_flips(n)
    assert set(map(tuple, flips.tolist())) == set(itertools.product([1.0, -1.0], repeat=n))
    assert len(flips) == 2**n
    assert (flips[0] == 1.0).all()


def test_of_more_repeats_a_fixed_sample_is_made() -> None:
    """The same in every call, half of it changed."""
    flips = sign_flips(20)
    assert flips.shape == (FLIPS, 20)
    assert (flips == sign_flips(20)).all()
    assert abs(flips.mean()) < 0.02


@example(losses=np.array([[0, 0, 0, 0, 49, -37, 76, 76]]).T / 10.0)  # a mean of the margin
@given(losses=LOSSES)
def test_p_is_that_of_the_definition(losses: Floats) -> None:
    """The share of sign flips whose largest t over the cases is at least the case's own."""

    def largest(excess: Floats) -> Floats:
        deviation = excess.std(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return excess.mean(axis=0) / deviation

    excess = losses - 2.05
    if (excess == excess[0]).all(axis=0).any() or not excess.any(axis=0).all():
        return
    observed = largest(excess)
    flipped = [largest(excess * signs[:, None]).max() for signs in sign_flips(8)]
    results = max_test(losses, 2.05, no_steps(losses), 0.05)
    for case, result in enumerate(results):
        at_least = np.mean(
            [value > observed[case] - 1e-7 * (1 + abs(observed[case])) for value in flipped]
        )
        assert result.p == pytest.approx(at_least, abs=1e-9)


@given(losses=LOSSES, alpha=st.sampled_from([0.01, 0.05, 0.2]))
def test_the_interval_agrees_with_p(losses: Floats, alpha: float) -> None:
    """A case is significant exactly if the lower end of its interval is beyond the margin."""
    steps = np.full(losses.shape[1], 0.5)
    for result, mean in zip(max_test(losses, 2.05, steps, alpha), losses.mean(axis=0), strict=True):
        assert result.low <= mean + 1e-9
        if abs(result.low - 2.05) > 1e-6:
            assert (result.low > 2.05) == (result.p <= alpha)


@given(losses=LOSSES, order=st.permutations(range(6)))
def test_the_order_of_cases_plays_no_part(losses: Floats, order: list[int]) -> None:
    """Each case has the same p among the same cases."""
    order = [index for index in order if index < losses.shape[1]]
    one = max_test(losses, 2.05, no_steps(losses), 0.05)
    other = max_test(losses[:, order], 2.05, no_steps(losses), 0.05)
    assert [one[case].p for case in order] == [result.p for result in other]


@pytest.mark.slow
def test_one_error_rate_for_sixty_cases() -> None:
    """At a loss of exactly the margin 5 % of runs find any case; one that loses is found."""
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 1, (400, 20, 1))
    losses = 2.0 + shared + rng.normal(0, 1, (400, 20, 60))
    runs = [max_test(sample, 2.0, no_steps(sample), 0.05) for sample in losses]
    alarms = sum(min(case.p for case in run) <= 0.05 for run in runs)
    assert 7 <= alarms <= 36
    losses[:, :, 7] += 3.0
    detected = sum(
        max_test(sample, 2.0, no_steps(sample), 0.05)[7].p <= 0.05 for sample in losses[:50]
    )
    assert detected >= 48
