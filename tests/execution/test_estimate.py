"""How long an audit may take."""

from __future__ import annotations

import pytest

from grb_check.attacks.names import base_name
from grb_check.attacks.registry import load_attack
from grb_check.cases.case import Case
from grb_check.cases.suites import SUITES
from grb_check.execution.estimate import PASSES, duration, seconds

CASES = [Case("d", "full", *pair) for pair in SUITES["audit"].attacks]


def test_every_attack_of_the_audit_that_knows_the_model_has_its_passes() -> None:
    """Those that do not take one."""
    names = {
        f"{scenario}/{name.partition('+local=')[0]}"
        for scenario, name in SUITES["audit"].attacks
        if base_name(name) != "worst" and load_attack(scenario, name).knowledge == "white-box"
    }
    assert names == set(PASSES)


def test_an_estimate_is_of_all_repeats() -> None:
    """Each has a training, and passes for its attacks; `worst` has them already."""
    one = seconds(CASES, 1, training=5.0, one_pass=0.1)
    assert one > 5.0 + 0.1 * sum(PASSES.values())
    assert seconds(CASES, 3, training=5.0, one_pass=0.1) == pytest.approx(3 * one)
    without = [case for case in CASES if base_name(case.attack) != "worst"]
    assert seconds(without, 1, training=5.0, one_pass=0.1) == one


@pytest.mark.parametrize(("given", "words"), [(0.4, "0 s"), (89.0, "89 s"), (119.0, "2 min")])
def test_a_duration_is_in_words(given: float, words: str) -> None:
    assert duration(given) == words
