"""Whole numbers that users write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.whole_numbers import whole_number


@given(st.integers(-(10**30), 10**30), st.integers(0, 100), st.integers(0, 10**6))
def test_numbers_within_the_range_are_read_whatever_their_form(
    number: int, least: int, most: int
) -> None:
    """As a number, or as its text, with blanks around it."""
    expected = number if least <= number <= most else None
    for given_ in (number, str(number), f" {number}\n"):
        assert whole_number(given_, least, most) == expected


@pytest.mark.parametrize(
    "given_",
    [None, True, 1.0, "", " ", "2.0", "+1", "1_0", "0x1", "٣", "²", "1\0", [1], "9" * 5000],
)
def test_nothing_else_is_a_whole_number(given_: object) -> None:
    """Python's own integers allow more."""
    assert whole_number(given_, 0, 100) is None
