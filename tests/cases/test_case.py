"""Cases, their ids and the selection among them."""

from __future__ import annotations

import pytest

from grb_check.cases.attack_pairs import at_budgets
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.selection import expand, keep_matching
from grb_check.errors import UsageError, choose


def test_a_case_id_names_dataset_difficulty_scenario_and_attack() -> None:
    """The id is one string; with several models it begins with the model."""
    assert Case("grb-cora", "easy", "injection", "pgd").id == "grb-cora/easy/injection/pgd"
    assert Case("d", "full", "modification", "rnd", "GCN").id == "GCN@d/full/modification/rnd"


def test_an_unknown_value_is_answered_with_the_nearest_and_the_allowed() -> None:
    """One line has the given value, the nearest one and the allowed ones."""
    with pytest.raises(UsageError) as caught:
        choose("difficulty", "esay", DIFFICULTIES)
    assert "'esay' (did you mean 'easy'?); allowed: easy, medium, hard, full" in str(caught.value)


def test_expansion_is_ordered_by_model_dataset_difficulty_attack() -> None:
    """xdist needs the same order in every worker, and datasets together."""
    cases = expand(["m", "n"], ["a", "b"], ["easy"], [("injection", "pgd"), ("injection", "rnd")])
    assert [case.id for case in cases[:3]] == [
        "m@a/easy/injection/pgd",
        "m@a/easy/injection/rnd",
        "m@b/easy/injection/pgd",
    ]
    assert len(cases) == len(set(cases)) == 8


def test_patterns_keep_what_any_of_them_matches() -> None:
    """A pattern is matched with and without the model."""
    cases = expand(["m"], ["a", "b"], DIFFICULTIES, [("injection", "pgd")])
    assert len(keep_matching(cases, [])) == 8
    assert [c.id for c in keep_matching(cases, ["a/easy/*", "m@b/full/*"])] == [
        "m@a/easy/injection/pgd",
        "m@b/full/injection/pgd",
    ]


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    """A filter with a typing error must not end in an empty green run."""
    cases = expand([""], ["a"], DIFFICULTIES, [("injection", "pgd")])
    with pytest.raises(UsageError, match=r"'a/esay/\*' matches none of the 4 selected cases"):
        keep_matching(cases, ["a/*", "a/esay/*"])


def test_a_pattern_without_a_budget_keeps_a_case_at_all_its_budgets() -> None:
    """And one with a budget that one."""
    cases = expand([""], ["a"], ["easy"], at_budgets([("modification", "rnd")], [0.01, 0.1]))
    assert keep_matching(cases, ["*/rnd"]) == cases
    assert keep_matching(cases, ["*/rnd+budget=0.1"]) == cases[1:]
