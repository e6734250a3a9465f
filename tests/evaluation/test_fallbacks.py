"""Searches of injections that the attacks of a threat share."""

from __future__ import annotations

from typing import Any

import pytest
from trial_spies import ready, trial

from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.evaluation import fallbacks
from grb_check.evaluation.fallbacks import Grounds, from_blends, improved, searched


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


def test_what_continues_counts_where_an_imitation_finds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model may fail under the search that follows an imitation."""
    attack, model = trial(InjectionPgd(knowledge="white-box")), ready()
    start = from_blends(attack, model)
    assert start is not None
    further = improved(attack, model, [start])
    assert further is not None
    monkeypatch.setattr(fallbacks, "from_blends", lambda *_, **__: None)
    monkeypatch.setattr(fallbacks, "transferred_variant", lambda *_, **__: None)
    monkeypatch.setattr(fallbacks, "_score", lambda *given: 0.0 if given[2] is further else 1.0)
    assert searched(attack, model, start, None, Grounds(misled=True)) is further
