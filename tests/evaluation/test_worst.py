"""The worst of several measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import finding, outcome, scores

from grb_check.cases.outcomes import Measurement
from grb_check.cases.repeat_results import CaseFacts, RepeatResult
from grb_check.evaluation.worst import worst_of, worst_result

TARGETS = 13


def repeat(right: np.ndarray, reference: float = 0.5) -> Measurement:
    """A measurement in which these targets stay right."""
    plain = outcome([(0.8, 0.8)], [(0.8, 0.8)]).repeats[0]
    victim = replace(
        plain.victim, attacked=float(right.mean()), right_after=np.packbits(right).tobytes()
    )
    return replace(plain, victim=victim, references={"gcn": scores(0.8, reference)})


@given(st.lists(st.lists(st.booleans(), min_size=TARGETS, max_size=TARGETS), min_size=1))
def test_the_worst_is_the_minimum_and_each_targets_worst_is_no_better(
    rights: list[list[bool]],
) -> None:
    """A target counts as right if every attack leaves it right."""
    bits = np.array(rights)
    members = [(f"a{index}", repeat(right)) for index, right in enumerate(bits)]
    worst = worst_of(members, TARGETS)
    assert worst.victim.attacked == bits.mean(axis=1).min()
    assert worst.member == f"a{bits.sum(axis=1).argmin()}"
    assert worst.per_target == pytest.approx(bits.all(axis=0).mean())
    assert worst.per_target <= worst.victim.attacked


def test_what_is_known_of_the_model_is_kept_and_of_weaker_attacks_is_not() -> None:
    """If one attack found no gradient, all of them are in doubt."""
    weak = replace(
        repeat(np.ones(TARGETS, bool)),
        diagnostics=(finding("no-gradient", 0.5), finding("no-effect", 0.0)),
        method="adaptive",
    )
    strong = replace(repeat(np.zeros(TARGETS, bool)), diagnostics=(finding("budget-unused", 0.5),))
    worst = worst_of([("weak", weak), ("strong", strong)], TARGETS)
    assert [diagnostic.name for diagnostic in worst.diagnostics] == ["budget-unused", "no-gradient"]
    assert worst.method == "black-box"


def test_the_result_names_the_strongest_member_and_how_it_was_made() -> None:
    """So that its perturbation can be made again."""
    facts = CaseFacts(
        targets=TARGETS, majority=0.1, dataset="f", origin="", attack="weak v1", threat=""
    )
    results = [
        RepeatResult(
            facts=replace(facts, attack=f"{name} v1"),
            measurement=replace(repeat(np.full(TARGETS, right)), perturbation=name),
            warnings=(f"of {name}",),
            attack=f"{name}+budget=0.1",
            methods=("adaptive",),
            perturbation=name.encode(),
        )
        for name, right in (("weak", True), ("strong", False))
    ]
    worst = worst_result(["weak", "strong"], results)
    assert (worst.attack, worst.perturbation) == ("strong+budget=0.1", b"strong")
    assert worst.warnings == ("of weak", "of strong")
    assert worst.facts.attack.startswith("worst of weak, strong: ")
