"""The figures of a case."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import finding, outcome

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Exact, Outcome

ACCURACY = st.integers(0, 100).map(lambda percent: percent / 100)
PAIRS = st.lists(st.tuples(ACCURACY, ACCURACY), min_size=1, max_size=4)


def test_an_outcome_averages_the_drops_of_its_repeats() -> None:
    """Each repeat has its own clean accuracy, so the drops are averaged, not the accuracies."""
    case_outcome = outcome([(0.8, 0.4), (0.5, 0.5)], [(0.8, 0.6), (0.8, 0.8)])
    assert case_outcome.drops == (0.5, 0.0)
    assert case_outcome.drop == 0.25
    assert case_outcome.clean == pytest.approx(0.65)
    assert case_outcome.reference_drop == pytest.approx(0.125)
    assert case_outcome.drop_deviation == pytest.approx(0.35355, abs=1e-5)


@given(st.lists(st.integers(0, 3), max_size=9), st.integers(0, 5), st.integers(0, 3))
def test_half_of_the_targets_withstand_the_median_radius(
    fallen: list[int], proven: int, undecided: int
) -> None:
    """Not one change more, be undecided targets the weakest or the strongest."""
    most = 4  # changes that were tried; `fallen` has those that each lost target withstands
    found = Exact(
        tried=1,
        right=len(fallen) + proven + undecided,
        proven=proven,
        undecided=undecided,
        basis="proven",
        smallest=tuple(fallen.count(size) for size in range(max(fallen, default=-1) + 1)),
    )
    for median, of_undecided in zip(found.median_radius(most), (0, most), strict=True):
        radii = [*fallen, *[most] * proven, *[of_undecided] * undecided]
        assert 2 * sum(radius >= median for radius in radii) >= len(radii)
        assert median == most or 2 * sum(radius > median for radius in radii) < len(radii)
    assert found.fallen == len(fallen)


@given(PAIRS)
def test_an_outcome_survives_the_way_through_json(pairs: list[tuple[float, float]]) -> None:
    """An outcome survives processes and files unchanged."""
    case_outcome = outcome(pairs, pairs)
    one = replace(
        case_outcome.repeats[0], method="transferred", diagnostics=(finding("no-gradient", 0.5),)
    )
    case_outcome = replace(
        case_outcome,
        repeats=(replace(one, member="pgd", per_target=0.25), *case_outcome.repeats[1:]),
    )
    assert Outcome.from_dict(json.loads(json.dumps(case_outcome.to_dict()))) == case_outcome


def test_an_outcome_tells_each_diagnostic_once_with_its_farthest_figure() -> None:
    """Whichever repeat it is of."""
    case_outcome = outcome([(0.8, 0.4)] * 2, [(0.8, 0.4)] * 2)
    findings = [
        (finding("no-gradient", 0.5), finding("budget-unused", 0.7)),
        (finding("no-gradient", 0.9), finding("budget-unused", 0.5)),
    ]
    pairs = zip(case_outcome.repeats, findings, strict=True)
    case_outcome = replace(case_outcome, repeats=tuple(replace(r, diagnostics=f) for r, f in pairs))
    assert [(summary.name, summary.figure) for summary in case_outcome.findings] == [
        ("budget-unused", 0.5),
        ("no-gradient", 0.9),
    ]


def test_an_outcome_knows_the_budget_that_its_case_names() -> None:
    """And none where it names none."""
    case = Case("d", "easy", "modification", "rnd+budget=0.1")
    assert outcome([(0.8, 0.4)], [(0.8, 0.4)], case).budget == 0.1
    assert outcome([(0.8, 0.4)], [(0.8, 0.4)]).budget is None
