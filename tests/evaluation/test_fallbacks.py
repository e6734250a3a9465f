"""Searches of injections that the attacks of a threat share."""

from __future__ import annotations

from typing import Any

import pytest
from trial_spies import ready, trial

from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.evaluation import fallbacks
from grb_check.evaluation.fallbacks import from_blends, improved


def test_attacks_of_a_threat_share_what_is_found_from_the_same_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the same model; another start is another search."""
    first, second = (
        trial(attack(knowledge="white-box")) for attack in (InjectionPgd, InjectionTdgia)
    )
    model, calls = ready(), []
    original = fallbacks.improve_injections

    def counted(*given: Any) -> Any:
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(fallbacks, "improve_injections", counted)
    start = from_blends(first, model)
    assert start is not None
    assert from_blends(second, model) is start
    found = improved(first, model, [start])
    assert found is not None
    assert improved(second, model, [start]) is found
    assert len(calls) == 1
    improved(first, model, [start, found])
    assert len(calls) == 2
    assert improved(trial(InjectionPgd(knowledge="white-box", harmony=1.0)), model, [start]) is None
