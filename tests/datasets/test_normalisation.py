"""GRB's normalisation is invertible, monotone and inside (-1, 1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from grb_check.datasets.normalisation import Moments, denormalise, normalise

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
def test_inverse_gives_raw_features_back(x: Matrix) -> None:
    """The inverse is exact up to float32: rounding by half an ulp grows with tan's slope."""
    values, moments = normalise(x)
    back = denormalise(values, moments)
    deviations = np.tan(values.astype(np.float64) * (np.pi / 2))
    rounding = 1e-7 * (moments.std * np.pi / 2 * (1 + deviations**2) + np.abs(x.astype(float)))
    assert (np.abs(back.astype(np.float64) - x) <= rounding + 1e-37).all()
