"""GRB's normalisation is invertible, monotone and inside (-1, 1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from grb_check.datasets.normalisation import Moments, denormalise, normalise
from grb_check.datasets.reading import dense

MATRICES = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.floats(-1e6, 1e6, width=32),
)
Matrix = NDArray[np.float32]


def test_known_values() -> None:
    """Two entries one deviation from their mean become -1/2 and 1/2, since arctan(1) = pi/4."""
    values, moments = normalise(np.array([[1.0, 5.0]]))
    assert Moments(mean=3.0, std=2.0) == moments
    np.testing.assert_array_equal(values, np.array([[-0.5, 0.5]], dtype=np.float32))


def test_moments_are_global() -> None:
    """Mean and deviation are those of the whole matrix, not of each column."""
    x = np.random.default_rng(0).normal(3, 2, (40, 7))
    _, moments = normalise(x)
    assert (moments.mean, moments.std) == pytest.approx((x.mean(), x.std()))


@settings(deadline=None, max_examples=100)
@given(MATRICES)
def test_range_is_open(x: Matrix) -> None:
    """No value reaches -1 or 1."""
    values, _ = normalise(x)
    assert np.float32 == values.dtype
    assert np.abs(values).max() < 1


@settings(deadline=None, max_examples=100)
@given(MATRICES)
def test_order_is_kept(x: Matrix) -> None:
    """A higher raw value never gets a lower normalised one."""
    values, _ = normalise(x)
    assert (np.diff(values.ravel()[np.argsort(x, axis=None)]) >= 0).all()


@settings(deadline=None, max_examples=100)
@given(MATRICES)
def test_inverse_gives_raw_features_back(x: Matrix) -> None:
    """The inverse is exact up to float32: rounding by half an ulp grows with tan's slope."""
    values, moments = normalise(x)
    back = denormalise(values, moments)
    deviations = np.tan(values.astype(np.float64) * (np.pi / 2))
    rounding = 1e-7 * (moments.std * np.pi / 2 * (1 + deviations**2) + np.abs(x.astype(float)))
    assert (np.abs(back.astype(np.float64) - x) <= rounding + 1e-37).all()


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
@settings(deadline=None, max_examples=30)
def test_constant_features_become_zeros(value: float) -> None:
    """A constant matrix has no deviation: zeros, and the inverse gives the constant back."""
    x = np.full((5, 3), value, dtype=np.float32)
    values, moments = normalise(x)
    assert not values.any()
    np.testing.assert_array_equal(denormalise(values, moments), x)


def test_ends_of_the_range_invert_finitely() -> None:
    """-1 and 1, which an attack may ask for, give large and finite raw features, in order."""
    back = denormalise(np.array([[-1.0, 0.999, 1.0, 1.5]]), Moments(mean=0.5, std=2.0))
    assert np.isfinite(back).all()
    assert back[0, 0] < 0 < back[0, 1] < back[0, 2] == back[0, 3]


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix that is worked through row by row gives the same as one done at once."""
    x = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    whole, moments = normalise(x)
    monkeypatch.setattr(dense, "BLOCK_VALUES", 4)
    by_row, same = normalise(x)
    np.testing.assert_allclose(by_row, whole, atol=1e-7)
    assert (same.mean, same.std) == pytest.approx((moments.mean, moments.std))
    np.testing.assert_allclose(denormalise(by_row, same), x, atol=1e-5)


def test_input_is_not_changed() -> None:
    """The given matrix stays as it was."""
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    normalise(x)
    np.testing.assert_array_equal(x, [[1.0, 2.0], [3.0, 4.0]])
