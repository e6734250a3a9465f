"""The matrix of cases, their ids and the selection among them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.attacks.registry import attack_names
from grb_check.cases.case import (
    DIFFICULTIES,
    SCENARIOS,
    Case,
    at_budgets,
    attack_order,
    case_of,
    expand,
    keep_matching,
    known_attacks,
    node_path,
    parse_node_id,
)
from grb_check.cases.suites import SUITES, worst_members
from grb_check.errors import UsageError, choose

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    scenario, attack = draw(st.sampled_from([*attack_names(), ("injection", "mine")]))
    attack += draw(st.sampled_from(["", "+white-box", "+hao+surrogates=gcn,gin", "+iterations=2"]))
    attack += draw(st.sampled_from(["", "+budget=0.05", "+budget=1e-05"]))
    model = draw(st.just("") | NAMES)
    return Case(draw(NAMES), draw(st.sampled_from(DIFFICULTIES)), scenario, attack, model)


def test_a_case_id_names_dataset_difficulty_scenario_and_attack() -> None:
    """The id is one string, with the model in front where there are several."""
    assert Case("grb-cora", "easy", "injection", "pgd").id == "grb-cora/easy/injection/pgd"
    assert Case("d", "full", "modification", "rnd", "GCN").id == "GCN@d/full/modification/rnd"


@given(cases())
def test_a_printed_node_id_selects_its_case(case: Case) -> None:
    """Whatever pytest prints can be read back, whole or cut at the dataset."""
    printed = f"{node_path(case)}::test_attack[{case.cell}]"
    assert parse_node_id(printed).selects(case)
    assert str(parse_node_id(printed)) == printed
    assert parse_node_id(node_path(case)).selects(case)


@given(cases(), cases())
def test_a_printed_node_id_selects_no_other_case(one: Case, other: Case) -> None:
    """Two cases share a node id only when they are the same."""
    printed = f"{node_path(one)}::test_attack[{one.cell}]"
    several = bool(one.model) == bool(other.model)
    assert parse_node_id(printed).selects(other) is (one == other) or not several


@pytest.mark.parametrize(
    "argument",
    ["grb::a::b::c", "grb::x::test_attack[easy]", "grb::x::test_other[easy/injection/pgd]"],
)
def test_a_malformed_node_id_is_refused(argument: str) -> None:
    """The message shows what a good one looks like."""
    with pytest.raises(UsageError, match="easy/injection/pgd"):
        parse_node_id(argument)


@given(cases())
def test_the_case_of_a_node_id_is_known_unless_the_id_was_changed(case: Case) -> None:
    """pytest-xdist's groups stand behind it; parameters of other fixtures make it another."""
    printed = f"{node_path(case)}::test_attack[{case.cell}]"
    assert case_of(printed) == case_of(f"{printed}@group") == case
    assert case_of(printed.replace("[", "[a-")) is None
    assert case_of(printed.replace("[", "[a/b-")) is None
    assert case_of(node_path(case)) is None


def test_an_unknown_value_is_answered_with_the_nearest_and_the_allowed() -> None:
    """One line tells what was given, what was meant and what is allowed."""
    with pytest.raises(UsageError) as caught:
        choose("difficulty", "esay", DIFFICULTIES)
    assert "'esay' (did you mean 'easy'?); allowed: easy, medium, hard, full" in str(caught.value)


def test_expansion_is_ordered_by_model_dataset_difficulty_attack() -> None:
    """xdist needs the same order in every worker, and datasets together."""
    made = expand(["m", "n"], ["a", "b"], ["easy"], [("injection", "pgd"), ("injection", "rnd")])
    assert [case.id for case in made[:3]] == [
        "m@a/easy/injection/pgd",
        "m@a/easy/injection/rnd",
        "m@b/easy/injection/pgd",
    ]
    assert len(made) == len(set(made)) == 8


def test_patterns_keep_what_any_of_them_matches() -> None:
    """A pattern is matched with and without the model."""
    made = expand(["m"], ["a", "b"], DIFFICULTIES, [("injection", "pgd")])
    assert len(keep_matching(made, [])) == 8
    assert [c.id for c in keep_matching(made, ["a/easy/*", "m@b/full/*"])] == [
        "m@a/easy/injection/pgd",
        "m@b/full/injection/pgd",
    ]


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    """A filter with a typing error must not end in an empty green run."""
    made = expand([""], ["a"], DIFFICULTIES, [("injection", "pgd")])
    with pytest.raises(UsageError, match=r"'a/esay/\*' matches none of the 4 selected cases"):
        keep_matching(made, ["a/*", "a/esay/*"])


def test_scenarios_of_the_catalogue_are_the_two_known() -> None:
    """Options, ids and catalogue agree on the scenarios."""
    assert {scenario for scenario, _ in attack_names()} == set(SCENARIOS)


def test_every_attack_of_a_suite_is_in_the_catalogue() -> None:
    """Once, and in its order."""
    for suite in SUITES.values():
        assert set(suite.attacks) <= set(known_attacks())
        assert list(suite.attacks) == sorted(set(suite.attacks), key=attack_order)


def test_reports_show_variants_behind_their_attack_and_users_attacks_last() -> None:
    """Within each scenario; then what sums them up, and budgets by their size."""
    ordered = [
        ("injection", "rnd"),
        ("injection", "pgd"),
        ("injection", "pgd+budget=1e-05"),
        ("injection", "pgd+budget=0.1"),
        ("injection", "pgd+iterations=2"),
        ("injection", "a"),
        ("injection", "a+white-box"),
        ("injection", "a-b"),
        ("injection", "worst"),
        ("injection", "worst+budget=0.1"),
        ("modification", "rnd"),
        ("modification", "a"),
    ]
    shuffled = random.Random(0).sample(ordered, len(ordered))
    assert sorted(shuffled, key=attack_order) == ordered
    made = [Case("d", "easy", *pair) for pair in shuffled]
    in_order = sorted(made, key=lambda case: case.order)
    assert [(case.scenario, case.attack) for case in in_order] == ordered


def test_every_attack_runs_at_every_budget() -> None:
    """But one that names its own."""
    attacks = [("modification", "rnd"), ("modification", "dice+budget=0.3")]
    assert at_budgets(attacks, []) == tuple(attacks)
    assert at_budgets(attacks, [0.1, 0.01]) == (
        ("modification", "rnd+budget=0.01"),
        ("modification", "rnd+budget=0.1"),
        ("modification", "dice+budget=0.3"),
    )


def test_a_pattern_without_a_budget_keeps_a_case_at_all_its_budgets() -> None:
    """And one with a budget that one."""
    made = expand([""], ["a"], ["easy"], at_budgets([("modification", "rnd")], [0.01, 0.1]))
    assert keep_matching(made, ["*/rnd"]) == made
    assert keep_matching(made, ["*/rnd+budget=0.1"]) == made[1:]


def test_the_worst_is_that_of_the_other_selected_attacks_of_its_scenario() -> None:
    """At its own budget, whatever theirs."""
    selected = [
        ("injection", "pgd"),
        ("modification", "dice+budget=0.3"),
        ("modification", "rnd+removal_share=0.1"),
        ("modification", "rnd+removal_share=0.1+budget=0.3"),
        ("modification", "worst"),
    ]
    members = ("rnd+removal_share=0.1", "dice")
    assert worst_members(("modification", "worst"), selected) == members
    assert worst_members(("modification", "worst+budget=0.2"), selected) == tuple(
        f"{name}+budget=0.2" for name in members
    )


def test_the_worst_alone_is_that_of_the_standard_suite() -> None:
    """Of its scenario; and where the selection is one without it, as when a node id names it."""
    for scenario in SCENARIOS:
        for selected in (
            [(scenario, "worst"), ("poisoning", "rnd")],
            [(scenario, "rnd"), ("poisoning", "worst")],
            [],
        ):
            members = worst_members((scenario, "worst"), selected)
            assert [(scenario, name) for name in members] == [
                pair for pair in attack_names() if pair[0] == scenario
            ]
