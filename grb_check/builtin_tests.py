"""The built-in tests, written with the public fixtures only."""

from __future__ import annotations

import pytest

from grb_check.cases.verdicts import Verdict


def test_attack(grb_verdict: Verdict) -> None:
    """The model loses no more accuracy than the gate allows."""
    if not grb_verdict.passed:
        pytest.fail(grb_verdict.message, pytrace=False)
