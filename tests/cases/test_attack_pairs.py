"""The order of attacks, and attacks at budgets."""

from __future__ import annotations

import random

import pytest

from grb_check.attacks.registry import attack_names, canonical_name
from grb_check.attacks.scenarios import SCENARIOS
from grb_check.cases.attack_pairs import at_budgets, attack_order, on_graphs
from grb_check.cases.case import Case
from grb_check.errors import UsageError


def test_the_local_budget_of_an_attack_is_not_written() -> None:
    """One threat has one case id."""
    assert canonical_name("modification", "lrbcd+local=50%") == "lrbcd"
    assert canonical_name("modification", "lrbcd+local=.2") == "lrbcd+local=0.2"


def test_scenarios_of_the_catalogue_are_those_known() -> None:
    """Options, ids and catalogue agree on the scenarios."""
    assert {scenario for scenario, _ in attack_names()} == set(SCENARIOS)


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
    cases = [Case("d", "easy", *pair) for pair in shuffled]
    in_order = sorted(cases, key=lambda case: case.order)
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


def test_nodes_in_a_set_of_graphs_have_no_local_budget() -> None:
    """It is for the nodes of a single graph."""
    assert not on_graphs(("modification", "prbcd+local=0.5"))


def test_attacks_on_single_targets_have_no_budget_of_the_whole_graph() -> None:
    """The message says what they take instead."""
    attacks = [("modification", "rnd"), ("modification", "sga")]
    assert at_budgets(attacks, []) == tuple(attacks)
    with pytest.raises(UsageError, match=r"/sga takes no budget, .* give local=SHARE"):
        at_budgets(attacks, [0.1])
