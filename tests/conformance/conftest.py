"""Fewer graphs: each model here breaks its property on most of them, or on none."""

from __future__ import annotations

import pytest
from hypothesis import Phase

from grb_check.conformance import check


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Graphs are not made smaller either, which takes most of the time of a failure."""
    if request.config.getoption("--thorough"):
        return
    monkeypatch.setattr(check, "EXAMPLES", 15)
    monkeypatch.setattr(check, "COMPILED", 2)
    monkeypatch.setattr(check, "PHASES", (Phase.generate,))
