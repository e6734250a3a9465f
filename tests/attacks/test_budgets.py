"""Budgets: the published table, and the rule for other graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import graph_of

from grb_check.attacks.budgets import MOST_FLIPS, settings_for, threat_for, threat_of
from grb_check.attacks.modification.shared.removable import local_budgets
from grb_check.datasets.dataset import Dataset
from grb_check.errors import UsageError

# name, nodes, features, injected nodes easy and full, edges at each: Table 12 of the GRB paper.
PUBLISHED = [
    ("grb-cora", 2680, 302, 20, 60, 20),
    ("grb-citeseer", 3191, 768, 30, 90, 20),
    ("grb-flickr", 89250, 500, 200, 600, 100),
    ("grb-reddit", 232965, 602, 500, 1500, 200),
    ("grb-aminer", 659574, 100, 500, 1500, 100),
]


def dataset_of(
    name: str, num_nodes: int, num_features: int = 1, edges: int = 3, targets: int | None = None
) -> Dataset:
    """A dataset with GRB's test sizes; its features take no memory."""
    graph = graph_of(4, [(0, 1), (1, 2), (2, 3)][:edges])
    graph.x = torch.tensor([-0.3]).expand(num_nodes, num_features)
    tenth = num_nodes // 10 if targets is None else targets
    return Dataset(
        name=name,
        graph=graph,
        train=torch.tensor([0]),
        val=torch.tensor([1]),
        test={
            "easy": torch.arange(tenth),
            "medium": torch.arange(tenth) + tenth,
            "hard": torch.arange(tenth) + 2 * tenth,
            "full": torch.arange(3 * tenth),
        },
        num_classes=2,
        raw_feature_range=(-1.0, 1.0),
        features="grb",
        origin="test",
    )


@pytest.mark.parametrize(("name", "nodes", "features", "easy", "full", "edges"), PUBLISHED)
def test_published_datasets_get_the_published_budget(
    name, nodes, features, easy, full, edges
) -> None:
    """All five rows of Table 12, for the four difficulties."""
    dataset = dataset_of(name, nodes, features)
    for difficulty in ("easy", "medium", "hard", "full"):
        threat = threat_for(dataset, difficulty, "injection")
        assert threat.injected_nodes == (full if difficulty == "full" else easy)
        assert threat.edges_per_injected_node == edges
        assert torch.equal(dataset.test[difficulty], threat.targets)


def test_published_range_is_that_of_the_table() -> None:
    """GRB's datasets have the table's range, others their own."""
    assert threat_for(dataset_of("grb-cora", 2680, 302), "easy", "injection").feature_range == (
        -0.94,
        0.94,
    )
    other = dataset_of("grb-cora", 2708, 302)
    assert threat_for(other, "easy", "injection").feature_range == other.feature_range


def test_scaled_rule_gives_cora_exactly_and_the_others_within_a_factor() -> None:
    """The figures that the docstring states; full has three times the nodes of easy."""
    expected = {
        "grb-cora": (20, 20),
        "grb-citeseer": (22, 21),
        "grb-flickr": (164, 81),
        "grb-reddit": (291, 119),
        "grb-aminer": (544, 181),
    }
    for name, nodes, _, easy, full, edges in PUBLISHED:
        dataset = dataset_of("other", nodes)
        small, large = (threat_for(dataset, name, "injection") for name in ("easy", "full"))
        assert (small.injected_nodes, small.edges_per_injected_node) == expected[name]
        assert abs(large.injected_nodes - 3 * small.injected_nodes) <= 2
        assert 1 / 1.9 < large.injected_nodes / full < 1.9
        assert 1 / 1.9 < small.injected_nodes / easy < 1.9
        assert 1 / 1.9 < small.edges_per_injected_node / edges < 1.9


@given(st.integers(4, 3000), st.integers(1, 900))
def test_small_graphs_get_a_budget_that_can_be_used(num_nodes, targets) -> None:
    """There is at least one injected node, with at most as many edges as targets."""
    threat = threat_for(dataset_of("other", num_nodes, targets=targets), "easy", "injection")
    assert threat.injected_nodes >= 1
    assert 1 <= threat.edges_per_injected_node <= targets
    assert (threat.edge_budget, threat.modified_nodes) == (0, 0)


@pytest.mark.parametrize(
    ("edges", "budget"), [(0, 0), (1, 1), (19, 1), (39, 1), (40, 2), (5148, 257)]
)
def test_modification_may_change_five_percent_of_the_edges(edges, budget) -> None:
    """The number is rounded down, but at least 1 if there is an edge."""
    dataset = dataset_of("other", 10_000)
    path = torch.arange(edges)
    dataset.graph.edge_index = torch.stack(
        [torch.cat([path, path + 1]), torch.cat([path + 1, path])]
    )
    threat = threat_for(dataset, "hard", "modification")
    assert threat.edge_budget == budget
    assert (threat.injected_nodes, threat.edges_per_injected_node) == (0, 0)


@pytest.mark.parametrize(("targets", "nodes"), [(1, 1), (19, 1), (39, 1), (40, 2), (1000, 50)])
def test_modification_may_change_the_features_of_five_percent_of_the_targets(
    targets, nodes
) -> None:
    """The number is rounded down, but at least 1; the range is the dataset's."""
    dataset = dataset_of("other", 10_000, targets=targets)
    threat = threat_for(dataset, "hard", "modification")
    assert threat.modified_nodes == nodes
    assert threat.feature_range == dataset.feature_range


@given(st.integers(1, 100), st.integers(1, 900))
def test_a_budget_is_a_share_rounded_down(percent, targets) -> None:
    """It is exact for decimal shares (29 % of 100 is 29), and at least 1."""
    dataset = dataset_of("other", 10_000, targets=targets)
    path = torch.arange(1000)
    edges = torch.stack([path, path + 1])
    dataset.graph.edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    share = percent / 100
    threat = threat_for(dataset, "easy", "modification", share)
    assert (threat.edge_budget, threat.modified_nodes) == (
        10 * percent,
        max(1, percent * targets // 100),
    )
    injection = threat_for(dataset, "easy", "injection", share)
    assert injection.injected_nodes == max(1, percent * targets // 100)
    plain = threat_for(dataset, "easy", "injection")
    assert injection.edges_per_injected_node == plain.edges_per_injected_node


def test_a_budget_replaces_the_published_one_but_for_its_links() -> None:
    """A tenth of the 268 targets of grb-cora, with 20 links each."""
    threat = threat_for(dataset_of("grb-cora", 2680, 302), "easy", "injection", 0.1)
    assert (threat.injected_nodes, threat.edges_per_injected_node) == (26, 20)
    assert threat.feature_range == (-0.94, 0.94)


def test_unknown_difficulty_and_scenario_list_the_known() -> None:
    """Both are usage errors that name what is allowed."""
    dataset = dataset_of("other", 40)
    with pytest.raises(UsageError, match=r"'simple'; dataset other has .*difficulty=easy,"):
        threat_for(dataset, "simple", "injection")
    with pytest.raises(UsageError, match="'poison'; allowed: modification, injection"):
        threat_for(dataset, "easy", "poison")


def test_rows_that_sum_to_one_are_not_the_features_of_the_table() -> None:
    """The published range, steps and nodes assume GRB's normalisation."""
    rows = replace(dataset_of("grb-cora", 2680, 302), features="rows")
    assert threat_for(rows, "easy", "injection").feature_range == rows.feature_range
    assert settings_for(rows, "injection") == {}


@given(st.integers(1, 10_000))
def test_local_budgets_are_rounded_down_exactly(hundredths) -> None:
    """A star of 11 nodes: shares of degrees 10 and 1, written as decimal numbers."""
    star = graph_of(11, [(0, other) for other in range(1, 11)])
    budgets = local_budgets(star, hundredths / 10_000)
    assert budgets.tolist() == [10 * hundredths // 10_000] + [hundredths // 10_000] * 10


def test_a_local_budget_that_allows_nothing_is_refused() -> None:
    """The message says what would allow something."""
    dataset = dataset_of("mine", 4, targets=1)
    with pytest.raises(UsageError, match=r"no change at any node .* is 2; give at least 0\.5"):
        threat_of(dataset, "easy", "modification", "dice+local=0.1")


def test_the_budget_of_a_single_target_has_a_limit() -> None:
    """A star: the centre has 60 edges, but no more flips than `MOST_FLIPS`."""
    star = graph_of(61, [(0, other) for other in range(1, 61)])
    dataset = replace(dataset_of("mine", 61, targets=2), graph=star)
    threat = threat_of(dataset, "easy", "modification", "nettack")
    assert threat.budgets_of_targets().tolist() == [MOST_FLIPS, 3]


def test_the_name_of_an_attack_gives_the_budgets_of_its_threat() -> None:
    """Both of them, and GRB's without any."""
    dataset = dataset_of("mine", 4, targets=1)
    threat = threat_of(dataset, "easy", "modification", "dice+local=0.5+budget=1.0")
    assert threat.edge_budget == 3
    assert threat.local_budgets is not None
    assert threat.local_budgets.tolist() == [0, 1, 1, 0]
    assert threat_of(dataset, "easy", "modification", "dice").local_budgets is None
    local = threat_of(dataset, "easy", "modification", "lrbcd")
    assert local.local_budgets is not None
    assert torch.equal(local.local_budgets, threat.local_budgets)
    assert threat_of(dataset, "easy", "injection", "pgd+budget=1.0").injected_nodes == 1


def test_poisoning_of_a_graph_that_is_learnt_in_part_stays_in_that_part() -> None:
    """Its budget is a share of the edges there; no features change."""
    graph = graph_of(10, [(i, j) for i in range(10) for j in range(i)])
    dataset = replace(dataset_of("mine", 10), graph=graph, train=torch.arange(5))
    threat = threat_of(dataset, "full", "poisoning", "prbcd+budget=0.5")
    assert (threat.edge_budget, threat.modified_nodes) == (5, 0)
    assert threat.local_budgets is not None
    assert threat.local_budgets.tolist() == [9] * 5 + [0] * 5
    local = threat_of(dataset, "full", "poisoning", "prbcd+local=0.5").local_budgets
    assert local is not None
    assert local.tolist() == [2] * 5 + [0] * 5
    alone = replace(dataset, train=torch.tensor([0]))
    with pytest.raises(UsageError, match="no edge between training nodes"):
        threat_of(alone, "full", "poisoning", "prbcd")
    whole = replace(dataset, transductive=True)
    threat = threat_of(whole, "full", "poisoning", "prbcd+budget=0.5")
    assert (threat.edge_budget, threat.local_budgets) == (22, None)


def test_budgets_of_targets_attacked_one_by_one() -> None:
    """Degree + 2, or a share of the degree and at least 1; no more than there are pairs."""
    dataset = dataset_of("mine", 4, targets=4)
    named = {"nettack": [3, 3, 3, 3], "sga+local=1.0": [1, 2, 2, 1]}
    for name, budgets in named.items():
        threat = threat_of(dataset, "easy", "modification", name)
        assert threat.target_budgets is not None
        assert threat.target_budgets.tolist() == budgets
        assert threat.edge_budget == sum(budgets)
        assert threat.local_budgets is None


def test_of_many_targets_a_thousand_are_attacked_one_by_one() -> None:
    """Always the same ones, ascending."""
    dataset = dataset_of("mine", 30_000, targets=1_500)
    one, other = (threat_of(dataset, "easy", "modification", "nettack") for _ in range(2))
    assert one.targets.numel() == 1_000
    assert torch.equal(one.targets, other.targets)
    assert (one.targets.diff() > 0).all()
