"""All properties of a model without pytest."""

from __future__ import annotations

import pytest
from broken_models import BROKEN, Sound, trained

import grb_check

TWO = ("permutation-equivariance", "edge-order")


@pytest.mark.slow
def test_a_sound_model_is_told_of_each_property() -> None:
    """In the order of the table, whatever the order asked for."""
    results = grb_check.check_model(trained(Sound), properties=TWO[::-1])
    assert [(result.name, result.result) for result in results] == [(name, "pass") for name in TWO]


def test_known_failures_are_expected_and_fail_when_they_pass() -> None:
    """With their reasons."""
    known = {TWO[0]: "uses node ids"}
    results = grb_check.check_model(BROKEN[TWO[0]], properties=TWO, expected_failures=known)
    assert [result.result for result in results] == ["fail", "pass"]
    with pytest.raises(grb_check.PropertyError, match=r"expected to fail \(uses node ids\)"):
        grb_check.check_model(trained(Sound), properties=TWO, expected_failures=known)
