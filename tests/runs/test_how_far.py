"""How far a step is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grb_check.runs import how_far


def test_a_step_that_tells_its_share_has_a_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not has its duration alone."""
    clock = iter([0.0])
    monkeypatch.setattr(how_far, "time", SimpleNamespace(monotonic=lambda: next(clock, 20.0)))
    far = how_far.HowFar()
    assert str(far) == "20 s"
    far.tell(0.25)
    assert str(far) == "20 s, 25 % tried, about 60 s left"
