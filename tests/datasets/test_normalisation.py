"""How features are scaled: as in GRB, by rows, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from grb_check.datasets.normalisation import normalise, normalised_range, scaled

MATRICES = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.floats(-1e6, 1e6, width=32),
)
Matrix = NDArray[np.float32]


def test_known_values() -> None:
    """Two entries one deviation from their mean become -1/2 and 1/2, since arctan(1) = pi/4."""
    values = normalise(np.array([[1.0, 5.0]]))
    np.testing.assert_array_equal(values, np.array([[-0.5, 0.5]], dtype=np.float32))


def test_moments_are_global() -> None:
    """Mean and deviation are those of the whole matrix, not of each column."""
    x = np.random.default_rng(0).normal(3, 2, (40, 7))
    expected = np.arctan((x - x.mean()) / x.std()) * 2 / np.pi
    np.testing.assert_allclose(normalise(x), expected, rtol=1e-5)


def test_the_range_is_computed_in_float64() -> None:
    """As the values are: large entries far from 0, of which one differs."""
    x = np.full((10, 4), -720252.0, np.float32)
    x[0, 0] = -637398.0
    values = normalise(x)
    ends = (float(values.min()), float(values.max()))
    assert normalised_range(x) == pytest.approx(ends, abs=1e-7)


@settings(deadline=None, max_examples=100)
@given(MATRICES)
def test_order_is_kept_and_the_range_open(x: Matrix) -> None:
    """Larger features stay as large or larger, and none becomes 1."""
    values = normalise(x)
    assert (np.abs(values) < 1).all()
    ends = (float(values.min()), float(values.max()))
    assert normalised_range(x) == pytest.approx(ends, abs=1e-6)
    order = np.argsort(x, axis=None)
    assert (np.diff(values.ravel()[order]) >= 0).all()


@settings(deadline=None, max_examples=100)
@given(MATRICES)
def test_rows_sum_to_one_unless_they_are_zero(x: Matrix) -> None:
    """In absolute value; signs and zeros stay."""
    rows = scaled(x.copy(), "rows")
    sums = np.abs(rows.astype(np.float64)).sum(axis=1)
    zero = ~np.abs(x).any(axis=1)
    assert sums[~zero] == pytest.approx(1, rel=1e-4)
    assert not rows[zero].any()
    assert scaled(x.copy(), "given").tobytes() == x.tobytes()
