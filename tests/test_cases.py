"""The matrix of cases, their ids and the selection among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.attacks import attack_names
from grb_check.cases import (
    DIFFICULTIES,
    SCENARIOS,
    Case,
    choose,
    expand,
    keep_matching,
    node_path,
    parse_node_id,
    select_attacks,
)
from grb_check.errors import UsageError

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    scenario, attack = draw(st.sampled_from(attack_names()))
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


def test_an_attack_name_without_scenario_stands_for_all_its_scenarios() -> None:
    """`rnd` exists twice, `injection/rnd` once."""
    assert select_attacks(["rnd"]) == (("injection", "rnd"), ("modification", "rnd"))
    assert select_attacks(["injection/rnd"]) == (("injection", "rnd"),)
    assert select_attacks(["rnd"], ["modification"]) == (("modification", "rnd"),)


def test_no_attack_name_stands_for_all_attacks_in_the_scenarios() -> None:
    """An empty selection is the whole catalogue."""
    assert select_attacks([]) == attack_names()
    assert {pair[0] for pair in select_attacks([], ["injection"])} == {"injection"}


def test_an_attack_outside_the_scenario_is_refused() -> None:
    """A selection that contradicts itself is an error, not an empty run."""
    with pytest.raises(UsageError, match="does not exist in scenario modification"):
        select_attacks(["pgd"], ["modification"])


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
