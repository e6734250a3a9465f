"""Orders of attacks and models."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import ExpectedCases, Row
from grb_check.cases.outcomes import Outcome
from grb_check.ranking.orders import by_effect, by_robustness, mean_by_attack, ranked


def row(made: Outcome) -> Row:
    expected_cases = ExpectedCases()
    expected_cases.enter("n", {"case": asdict(made.case), "outcome": made.to_dict()}, "pass", "")
    return expected_cases.entries["n"]


def rows() -> list[Row]:
    reference = [(0.8, 0.8)]
    weak = Case("d", "easy", "injection", "rnd")
    strong = Case("d", "easy", "injection", "pgd")
    return [
        row(outcome([(0.8, 0.6)], reference, weak, "a")),
        row(outcome([(0.8, 0.2)], reference, strong, "a")),
        row(outcome([(0.8, 0.8)], reference, weak, "b")),
        row(outcome([(0.8, 0.4)], reference, strong, "b")),
    ]


def test_attacks_are_ordered_by_their_drop_within_a_difficulty() -> None:
    """The strongest first."""
    (group,) = by_effect(rows()[:2]).values()
    assert [each.name for each in group] == ["injection/pgd", "injection/rnd"]


def test_attacks_are_ordered_by_their_mean_drop_over_all_cases() -> None:
    """Drops 0.75 and 0.5 against 0.25 and 0."""
    assert mean_by_attack(rows()) == [
        (1, "injection/pgd", pytest.approx(0.625)),
        (2, "injection/rnd", pytest.approx(0.125)),
    ]


def test_models_are_ordered_by_their_mean_drop_the_most_robust_first() -> None:
    """Model b has the smaller drop."""
    assert [each.name for each in by_robustness(rows())] == ["b", "a"]


def test_models_are_compared_on_the_cases_that_all_of_them_have() -> None:
    """An error in the hard cases of one must not make it look robust."""
    three = rows()[:3]
    assert by_robustness(three) == [(1, "b", 0.0), (2, "a", pytest.approx(0.25))]


def test_models_are_ordered_by_attacks_that_see_them_or_by_the_others() -> None:
    """A model may be first under the one and last under the other."""
    every = rows()[:3]
    assert by_robustness(every, adaptive=False) == by_robustness(every)
    assert by_robustness(every, adaptive=True) == []


def test_equal_figures_share_the_smallest_rank() -> None:
    """1, 2, 2, 4; equal entries keep their order."""
    figures = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.2}
    assert ranked(figures, "highest") == [
        (1, "c", 0.3),
        (2, "b", 0.2),
        (2, "d", 0.2),
        (4, "a", 0.1),
    ]
    assert ranked(figures, "lowest")[0] == (1, "a", 0.1)


def test_models_without_a_common_case_are_not_ordered() -> None:
    """There is no case to compare them in."""
    assert by_robustness([rows()[0], rows()[3]]) == []


def test_rows_without_an_outcome_have_no_rank() -> None:
    """A case that ended in an error has no drop."""
    expected_cases = ExpectedCases()
    expected_cases.enter(
        "n", {"case": asdict(Case("d", "easy", "injection", "rnd"))}, "error", "why"
    )
    assert mean_by_attack(expected_cases.rows) == []
