"""Orders of attacks and models."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.outcomes import Outcome
from grb_check.ranking.orders import RankedEntry, by_robustness, ranked


def row(case_outcome: Outcome) -> CaseRecord:
    expected_cases = ExpectedCases()
    expected_cases.enter(
        "n", {"case": asdict(case_outcome.case), "outcome": case_outcome.to_dict()}, "pass", ""
    )
    return expected_cases.entries["n"]


def rows() -> list[CaseRecord]:
    reference = [(0.8, 0.8)]
    weak = Case("d", "easy", "injection", "rnd")
    strong = Case("d", "easy", "injection", "pgd")
    return [
        row(outcome([(0.8, 0.6)], reference, weak, "a")),
        row(outcome([(0.8, 0.2)], reference, strong, "a")),
        row(outcome([(0.8, 0.8)], reference, weak, "b")),
        row(outcome([(0.8, 0.4)], reference, strong, "b")),
    ]


def test_models_are_compared_on_the_cases_that_all_of_them_have() -> None:
    """An error in the hard cases of one must not make it look robust."""
    three = rows()[:3]
    assert by_robustness(three) == [
        RankedEntry(1, "b", 0.0),
        RankedEntry(2, "a", pytest.approx(0.25)),
    ]


def test_equal_figures_share_the_smallest_rank() -> None:
    """1, 2, 2, 4; equal entries keep their order."""
    figures = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.2}
    assert ranked(figures, "highest") == [
        RankedEntry(1, "c", 0.3),
        RankedEntry(2, "b", 0.2),
        RankedEntry(2, "d", 0.2),
        RankedEntry(4, "a", 0.1),
    ]
    assert ranked(figures, "lowest")[0] == RankedEntry(1, "a", 0.1)
