"""The figures of a case."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import finding, outcome

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome

ACCURACY = st.integers(0, 100).map(lambda percent: percent / 100)
PAIRS = st.lists(st.tuples(ACCURACY, ACCURACY), min_size=1, max_size=4)


def test_an_outcome_averages_the_drops_of_its_repeats() -> None:
    """Each repeat has its own clean accuracy, so the drops are averaged, not the accuracies."""
    made = outcome([(0.8, 0.4), (0.5, 0.5)], [(0.8, 0.6), (0.8, 0.8)])
    assert made.drops == (0.5, 0.0)
    assert made.drop == 0.25
    assert made.clean == pytest.approx(0.65)
    assert made.reference_drop == pytest.approx(0.125)
    assert made.drop_deviation == pytest.approx(0.35355, abs=1e-5)


@given(PAIRS)
def test_an_outcome_survives_the_way_through_json(pairs: list[tuple[float, float]]) -> None:
    """An outcome survives processes and files unchanged."""
    made = outcome(pairs, pairs)
    one = replace(made.repeats[0], method="transferred", diagnostics=(finding("no-gradient", 0.5),))
    made = replace(made, repeats=(replace(one, member="pgd", per_target=0.25), *made.repeats[1:]))
    assert Outcome.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_an_outcome_tells_each_diagnostic_once_with_its_farthest_figure() -> None:
    """Whichever repeat it is of."""
    made = outcome([(0.8, 0.4)] * 2, [(0.8, 0.4)] * 2)
    found = [
        (finding("no-gradient", 0.5), finding("budget-unused", 0.7)),
        (finding("no-gradient", 0.9), finding("budget-unused", 0.5)),
    ]
    pairs = zip(made.repeats, found, strict=True)
    made = replace(made, repeats=tuple(replace(r, diagnostics=f) for r, f in pairs))
    assert [(each.name, each.figure) for each in made.findings] == [
        ("budget-unused", 0.5),
        ("no-gradient", 0.9),
    ]


def test_an_outcome_knows_the_budget_that_its_case_names() -> None:
    """And none where it names none."""
    case = Case("d", "easy", "modification", "rnd+budget=0.1")
    assert outcome([(0.8, 0.4)], [(0.8, 0.4)], case).budget == 0.1
    assert outcome([(0.8, 0.4)], [(0.8, 0.4)]).budget is None
