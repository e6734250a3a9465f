"""Random views of one graph."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import community_dataset, undirected
from torch import Tensor

from grb_check.models.contrastive.node_views import (
    AUGMENTATIONS,
    View,
    random_subgraph,
    shuffled,
    with_changed_edges,
    with_masked_nodes,
    without_nodes,
)

GRAPH = community_dataset().graph
NUM_NODES = 120
NO_EDGES = torch.empty((2, 0), dtype=torch.int64)


def pairs(edges: Tensor) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in edges.T if a < b}


def in_old_numbers(view: View) -> set[tuple[int, int]]:
    return pairs(view.nodes[view.edge_index])


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from(sorted(AUGMENTATIONS)), rate=st.floats(0, 0.9), seed=st.integers(0, 99))
def test_views_are_undirected_graphs_of_their_nodes(name: str, rate: float, seed: int) -> None:
    torch.manual_seed(seed)
    given_edges = GRAPH.edge_index.clone()
    view = AUGMENTATIONS[name](GRAPH.edge_index, NUM_NODES, rate)
    assert torch.equal(view.nodes, view.nodes.unique())
    assert torch.equal(view.edge_index, undirected(view.edge_index))
    assert not view.edge_index.numel() or int(view.edge_index.max()) < view.nodes.numel()
    assert view.masked.shape == view.nodes.shape
    assert torch.equal(GRAPH.edge_index, given_edges)


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
def test_a_rate_of_zero_changes_nothing(name: str) -> None:
    view = AUGMENTATIONS[name](GRAPH.edge_index, NUM_NODES, 0.0)
    assert view.nodes.numel() == NUM_NODES
    assert in_old_numbers(view) == pairs(GRAPH.edge_index)
    assert not view.masked.any()


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
def test_a_graph_without_edges_has_views_too(name: str) -> None:
    view = AUGMENTATIONS[name](NO_EDGES, 10, 0.2)
    assert view.edge_index.shape == (2, 0)
    assert view.nodes.numel() == (10 if name in ("edges", "features") else 8)


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
def test_the_same_global_seed_draws_the_same_view(name: str) -> None:
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        view = AUGMENTATIONS[name](GRAPH.edge_index, NUM_NODES, 0.3)
        drawn.append((view.nodes.tolist(), view.edge_index.tolist(), view.masked.tolist()))
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("augment", [without_nodes, random_subgraph])
def test_a_share_of_the_nodes_is_left_with_all_edges_among_them(augment: object) -> None:
    view = augment(GRAPH.edge_index, NUM_NODES, 0.25)  # type: ignore[operator]
    left = set(view.nodes.tolist())
    assert len(left) == 90
    assert in_old_numbers(view) == {(a, b) for a, b in pairs(GRAPH.edge_index) if {a, b} <= left}


def test_a_subgraph_is_connected() -> None:
    """On a path it is a shorter path."""
    path = undirected(torch.stack([torch.arange(29), torch.arange(1, 30)]))
    torch.manual_seed(0)
    for _ in range(10):
        view = random_subgraph(path, 30, 0.5)
        assert view.nodes.numel() == 15
        assert torch.equal(view.nodes.diff(), torch.ones(14, dtype=torch.int64))


def test_a_subgraph_fills_up_where_its_component_ends() -> None:
    two_triangles = undirected(torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]))
    torch.manual_seed(0)
    view = random_subgraph(two_triangles, 6, 0.2)
    assert view.nodes.numel() == 5
    assert any({a, b, c} <= set(view.nodes.tolist()) for a, b, c in ((0, 1, 2), (3, 4, 5)))


def test_half_of_the_changed_edges_is_removed_and_about_half_added() -> None:
    torch.manual_seed(0)
    before = pairs(GRAPH.edge_index)
    after = in_old_numbers(with_changed_edges(GRAPH.edge_index, NUM_NODES, 0.4))
    changed = int(0.2 * len(before))
    assert changed - 3 <= len(before - after) <= changed  # a removed pair may be drawn again
    assert 0.8 * changed <= len(after - before) <= changed


def test_a_share_of_the_nodes_is_masked() -> None:
    view = with_masked_nodes(GRAPH.edge_index, NUM_NODES, 0.25)
    assert int(view.masked.sum()) == 30
    assert torch.equal(view.edge_index, GRAPH.edge_index)


def test_shuffling_keeps_the_rows() -> None:
    torch.manual_seed(0)
    rows = torch.arange(50.0).view(25, 2)
    found = shuffled(rows)
    assert not torch.equal(found, rows)
    assert torch.equal(found.sort(dim=0).values, rows)
