"""Node ids as pytest prints them and takes them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.attacks.registry import attack_names
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.node_ids import case_of, node_path, parse_node_id
from grb_check.errors import UsageError

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    scenario, attack = draw(st.sampled_from([*attack_names(), ("injection", "mine")]))
    attack += draw(st.sampled_from(["", "+white-box", "+hao+surrogates=gcn,gin", "+iterations=2"]))
    attack += draw(st.sampled_from(["", "+budget=0.05", "+budget=1e-05"]))
    model = draw(st.just("") | NAMES)
    return Case(draw(NAMES), draw(st.sampled_from(DIFFICULTIES)), scenario, attack, model)


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
