"""Orders of attacks and models."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from outcome_factory import outcome

from grb_check.cases import Case
from grb_check.ledger import Ledger, Row
from grb_check.outcomes import Outcome
from grb_check.reports.ranking import by_effect, by_robustness, mean_by_attack


def row(made: Outcome) -> Row:
    ledger = Ledger()
    ledger.enter("n", {"case": asdict(made.case), "outcome": made.to_dict()}, "pass", "")
    return ledger.entries["n"]


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
    assert [name for name, _ in group] == ["injection/pgd", "injection/rnd"]


def test_attacks_are_ordered_by_their_mean_drop_over_all_cases() -> None:
    """Drops 0.75 and 0.5 against 0.25 and 0."""
    assert mean_by_attack(rows()) == [
        ("injection/pgd", pytest.approx(0.625)),
        ("injection/rnd", pytest.approx(0.125)),
    ]


def test_models_are_ordered_by_their_mean_drop_the_most_robust_first() -> None:
    """Model b drops by less."""
    assert [name for name, _ in by_robustness(rows())] == ["b", "a"]


def test_models_are_compared_on_the_cases_that_all_of_them_have() -> None:
    """An error in the hard cases of one must not make it look robust."""
    three = rows()[:3]
    assert by_robustness(three) == [("b", 0.0), ("a", pytest.approx(0.25))]


def test_rows_without_an_outcome_have_no_rank() -> None:
    """A case that ended in an error says nothing about its attack."""
    ledger = Ledger()
    ledger.enter("n", {"case": asdict(Case("d", "easy", "injection", "rnd"))}, "error", "why")
    assert mean_by_attack(ledger.rows) == []
