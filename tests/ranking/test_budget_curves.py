"""Curves of the drop by budget."""

from __future__ import annotations

from dataclasses import asdict

from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.ranking.budget_curves import curves


def test_a_curve_has_the_points_of_one_attack_on_one_model() -> None:
    """In any order of the cases; other models, targets and attacks have their own curves."""
    expected_cases = ExpectedCases()
    for model, level, attack, attacked in (
        ("a", "easy", "rnd+budget=0.1", 0.4),
        ("a", "easy", "rnd+budget=0.05", 0.6),
        ("a", "easy", "rnd+removal_share=0.1+budget=0.05", 0.6),
        ("a", "hard", "rnd+budget=0.05", 0.6),
        ("b", "easy", "rnd+budget=0.05", 0.7),
        ("b", "easy", "rnd+budget=0.1", 0.7),
        ("b", "easy", "rnd", 0.7),
    ):
        case = Case("d", level, "modification", attack, model)
        case_outcome = outcome([(0.8, attacked)], [(0.8, 0.8)], case, model)
        expected_cases.enter(
            case.id, {"case": asdict(case), "outcome": case_outcome.to_dict()}, "pass", ""
        )
    first, second = curves(expected_cases.rows)
    assert (first.model, first.id) == ("a", "d/easy/modification/rnd")
    assert [(point.budget, point.attacked) for point in first.points] == [(0.05, 0.6), (0.1, 0.4)]
    assert first.points[1].drop == 0.5
    assert (second.model, len(second.points)) == ("b", 2)
