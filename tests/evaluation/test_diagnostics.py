"""The limits of the diagnostics."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.attacks.threat import Threat
from grb_check.cases.findings import DIAGNOSTICS_PAGE, anchor
from grb_check.evaluation import diagnostics
from grb_check.evaluation.diagnostics import DIAGNOSTICS

DOCUMENT = Path(__file__).parents[2] / DIAGNOSTICS_PAGE
NOTHING = torch.empty(0, dtype=torch.int64)


def test_every_diagnostic_is_explained_under_its_name() -> None:
    """Every anchor in a report leads to a heading, and there are no other headings."""
    headings = re.findall(r"^### `([a-z-]+)`$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert headings == list(DIAGNOSTICS)
    assert anchor("no-effect") == "docs/explanation/diagnostics.md#no-effect"


def test_a_tenth_of_the_targets_may_lack_a_gradient() -> None:
    """More is a finding; without any sampled target there is none."""
    assert diagnostics.no_gradient(None, "", "edges") is None
    assert diagnostics.no_gradient(0.1, "", "edges") is None
    finding = diagnostics.no_gradient(0.5, "no derivative", "edges")
    assert finding is not None
    assert (finding.name, finding.figure, finding.limit) == ("no-gradient", 0.5, 0.1)
    assert "50% of the sampled targets have no gradient with respect to edges" in finding.text


def test_random_answers_and_kept_state_have_their_limits() -> None:
    """1 % of the targets, and 0.1 % of the nodes; the text names the graph."""
    assert diagnostics.random_forward(0.01) is None
    assert diagnostics.random_forward(0.02).name == "random-forward"  # type: ignore[union-attr]
    assert diagnostics.kept_state(0.001, None) is None
    assert diagnostics.kept_state(0.0, 0.001) is None
    clean, attacked = diagnostics.kept_state(0.2, 0.1), diagnostics.kept_state(0.0, 0.1)
    assert clean is not None
    assert attacked is not None
    assert "20.0% of the predictions on the clean graph" in clean.text
    assert "10.0% of the predictions on the attacked graph" in attacked.text
    assert diagnostics.kept_state(0.0, None, 0.001) is None
    again = diagnostics.kept_state(0.0, None, 0.1)
    assert again is not None
    assert "10.0% of the predictions on the attacked graph differ between two calls" in again.text


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 400))
def test_another_perturbation_is_stronger_by_more_than_a_target_and_a_percent(
    targets: int, own: int, other: int
) -> None:
    """The larger of the two counts."""
    own, other = min(own, targets), min(other, targets)
    ranks = np.arange(targets)
    finding = diagnostics.stronger("random-stronger", ranks < own, ranks < other, "a random one")
    assert (finding is not None) is (own - other > max(1, targets / 100))


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_an_effect_is_a_difference_beyond_chance(lost: int, gained: int, kept: int) -> None:
    """lost - gained > 1.64 sqrt(lost + gained), unless fewer than 20 targets were right."""
    before = np.array([True] * (lost + kept) + [False] * gained, dtype=bool)
    after = np.array([False] * lost + [True] * (kept + gained), dtype=bool)
    finding = diagnostics.no_effect(before, after)
    chance = lost - gained <= 1.64 * (lost + gained) ** 0.5
    assert (finding is not None) is (lost + kept >= 20 and chance)


def threat(**budgets: int) -> Threat:
    scenario = "injection" if "injected_nodes" in budgets else "modification"
    return Threat(scenario=scenario, targets=NOTHING, **budgets)  # type: ignore[arg-type]


SPENT = dict.fromkeys(
    ("added_edges", "removed_edges", "injected_nodes", "link_ends", "modified_nodes"), 0
)


@pytest.mark.parametrize(("right", "expected"), [(0, True), (2, True), (3, False)])
def test_of_a_hundredth_nothing_can_take_clearly_more(right: int, expected: bool) -> None:
    """As much another perturbation has to take beyond the adaptive one to count as stronger."""
    left, nothing = np.arange(200) < right, np.zeros(200, dtype=bool)
    finding = diagnostics.stronger(diagnostics.TRANSFER, left, nothing, "")
    assert diagnostics.nearly_all_lost(left) is expected
    assert (finding is None) is expected


@pytest.mark.parametrize(
    ("spent", "allowed", "text"),
    [
        ({"added_edges": 5, "removed_edges": 4}, {"edge_budget": 10}, None),
        ({"added_edges": 8}, {"edge_budget": 10}, "8 of 10 edge changes used"),
        ({}, {"edge_budget": 10, "modified_nodes": 3}, "0 of 10 edge changes used"),
        ({}, {"edge_budget": 0}, None),
        ({"modified_nodes": 3}, {"edge_budget": 10, "modified_nodes": 3}, None),
        (
            {"modified_nodes": 2},
            {"edge_budget": 10, "modified_nodes": 3},
            "2 of 3 nodes with modified features used",
        ),
        (
            {"modified_nodes": 1, "added_edges": 10},
            {"edge_budget": 10, "modified_nodes": 3},
            "1 of 3 nodes with modified features used",
        ),
        ({"modified_nodes": 3, "added_edges": 10}, {"edge_budget": 10, "modified_nodes": 3}, None),
        (
            {"injected_nodes": 2, "link_ends": 9},
            {"injected_nodes": 2, "edges_per_injected_node": 5},
            None,
        ),
        (
            {"injected_nodes": 2, "link_ends": 8},
            {"injected_nodes": 2, "edges_per_injected_node": 5},
            "8 of 10 links of injected nodes used",
        ),
        (
            {"injected_nodes": 1, "link_ends": 10},
            {"injected_nodes": 2, "edges_per_injected_node": 5},
            "1 of 2 injected nodes used",
        ),
    ],
)
def test_a_tenth_of_the_budget_may_stay_unused(
    spent: dict[str, int], allowed: dict[str, int], text: str | None
) -> None:
    """Only the kinds of changes that the attack makes count: edges, features, nodes or links."""
    finding = diagnostics.budget_unused({**SPENT, **spent}, threat(**allowed))
    assert (None if finding is None else finding.text) == (text and f"{text} (limit 90%)")
