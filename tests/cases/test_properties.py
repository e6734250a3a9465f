"""Properties as tests: ids, and what selects them."""

from __future__ import annotations

import pytest

from grb_check.cases.node_ids import parse_node_id
from grb_check.cases.properties import (
    PROPERTIES,
    PropertyCase,
    property_cases,
    select_properties,
)
from grb_check.errors import UsageError

CASES = [PropertyCase(model, name) for model in ("a", "b") for name in ("edge-order", "no-state")]


def test_models_of_nodes_and_of_graphs_have_their_own() -> None:
    """Most are for both."""
    of_nodes, of_graphs = (
        {each.name for each in property_cases(["m"], of_graphs=both)} for both in (False, True)
    )
    assert of_nodes | of_graphs == set(PROPERTIES)
    assert of_graphs - of_nodes == {"batch-independence"}
    assert of_nodes - of_graphs == {"separate-parts", "locality", "label-leakage"}


@pytest.mark.parametrize("case", CASES)
def test_an_id_names_its_case(case: PropertyCase) -> None:
    """Alone."""
    assert select_properties(CASES, [parse_node_id(case.node_id)], []) == [case]


@pytest.mark.parametrize(
    ("ids", "patterns", "kept"),
    [
        ([], [], "a edge-order, a no-state, b edge-order, b no-state"),
        (["grb::b"], [], "b edge-order, b no-state"),
        (["grb::b::test_conformance"], [], "b edge-order, b no-state"),
        ([], ["edge-*"], "a edge-order, b edge-order"),
        ([], ["a@*"], "a edge-order, a no-state"),
    ],
)
def test_ids_and_patterns_select(ids: list[str], patterns: list[str], kept: str) -> None:
    """Names, or models with names."""
    found = select_properties(CASES, [parse_node_id(each) for each in ids], patterns)
    assert ", ".join(f"{each.model} {each.name}" for each in found) == kept


def test_what_selects_nothing_is_refused() -> None:
    """With the nearest name."""
    with pytest.raises(UsageError, match="did you mean 'no-state'"):
        select_properties(CASES, [parse_node_id("grb::a::test_conformance[no-stat]")], [])
    with pytest.raises(UsageError, match="no property has an id like grb::c"):
        select_properties(CASES, [parse_node_id("grb::c::test_conformance[no-state]")], [])
    with pytest.raises(UsageError, match="case pattern 'hub' matches none of the properties edge-"):
        select_properties(CASES, [], ["hub"])
