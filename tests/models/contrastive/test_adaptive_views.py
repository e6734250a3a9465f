"""GCA's adaptive augmentation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import community_dataset, undirected
from torch import Tensor

from grb_check.models.contrastive.adaptive_views import (
    CENTRALITIES,
    DAMPING,
    MOST,
    adaptive_probabilities,
    degree,
    edge_importance,
    eigenvector,
    feature_importance,
    kept_at_random,
    kept_edges,
    pagerank,
)

# A triangle 0, 1, 2 with a tail 2 - 3 - 4, and node 5 alone.
EDGES = undirected(torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 3, 4]]))
COMMUNITIES = community_dataset().graph


def adjacency() -> Tensor:
    matrix = torch.zeros(6, 6, dtype=torch.float64)
    matrix[EDGES[0], EDGES[1]] = 1
    return matrix


def test_degrees_are_counted() -> None:
    assert degree(EDGES, 6).tolist() == [2, 2, 3, 2, 1, 0]


def test_the_leading_eigenvector_is_numpys() -> None:
    expected = torch.linalg.eigh(adjacency()).eigenvectors[:, -1].abs().float()
    torch.testing.assert_close(eigenvector(EDGES, 6), expected, atol=1e-6, rtol=0)


def test_pagerank_solves_its_equation() -> None:
    """r = (1 - d) 1 + d A D^-1 r, of mean 1 among the nodes that have edges."""
    shares = adjacency() / adjacency().sum(0).clamp(min=1)
    system = torch.eye(6, dtype=torch.float64) - DAMPING * shares
    expected = torch.linalg.solve(system, torch.full((6,), 1 - DAMPING, dtype=torch.float64))
    found = pagerank(EDGES, 6)
    torch.testing.assert_close(found, expected.float())
    assert float(found[:5].mean()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("centrality", CENTRALITIES.values(), ids=CENTRALITIES.keys())
def test_edges_among_central_nodes_matter_most(
    centrality: Callable[[Tensor, int], Tensor],
) -> None:
    importance = edge_importance(centrality(EDGES, 6), EDGES)
    highest = EDGES[:, importance.argmax()].tolist()
    lowest = EDGES[:, importance.argmin()].tolist()
    assert 2 in highest
    assert sorted(lowest) == [3, 4]


def test_features_of_central_nodes_matter_most() -> None:
    features = torch.zeros(6, 3)
    features[2, 0] = features[4, 1] = -1
    found = feature_importance(degree(EDGES, 6), features)
    torch.testing.assert_close(found, torch.tensor([3.0, 1.0, 0.0]).log1p())


def test_probabilities_are_equation_three_cut_off() -> None:
    found = adaptive_probabilities(torch.tensor([3.0, 2.0, 1.0, 2.0]), 0.4)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.4, MOST, 0.4]))


@settings(deadline=None)
@given(st.lists(st.floats(0, 10, width=32), max_size=20), st.floats(0, 1))
def test_probabilities_stay_in_their_range(importance: list[float], rate: float) -> None:
    values = torch.tensor(importance)
    found = adaptive_probabilities(values, rate)
    assert found.shape == values.shape
    assert ((found >= 0) & (found <= MOST)).all()
    assert not found.numel() or float(found.mean()) <= rate + 1e-6
    order = values.argsort()
    assert (found[order].diff() <= 1e-6).all()


def test_where_all_matter_alike_all_have_the_rate() -> None:
    assert torch.equal(adaptive_probabilities(torch.ones(3), 0.3), torch.full((3,), 0.3))


def test_edges_are_kept_in_both_directions_or_in_none() -> None:
    torch.manual_seed(0)
    edges = COMMUNITIES.edge_index
    kept = kept_edges(edges, torch.full((edges.shape[1],), 0.5))
    assert 0.3 < kept.shape[1] / edges.shape[1] < 0.7
    assert torch.equal(undirected(kept), kept.unique(dim=1))
    numbers = edges[0] * 120 + edges[1]
    assert torch.isin(kept[0] * 120 + kept[1], numbers).all()


def test_edges_are_dropped_as_often_as_their_probabilities_say() -> None:
    """The standard deviation of each count is below 16; five of them are allowed."""
    torch.manual_seed(0)
    probabilities = torch.linspace(0, 0.7, EDGES.shape[1])
    forth = EDGES[0] < EDGES[1]
    found = torch.zeros(36)
    for _ in range(1000):
        kept = kept_edges(EDGES, probabilities)
        found[kept[0] * 6 + kept[1]] += 1
    counts = found[EDGES[0] * 6 + EDGES[1]][forth]
    assert (counts - 1000 * (1 - probabilities[forth])).abs().max() < 80


def test_certain_things_are_certain() -> None:
    assert kept_at_random(torch.zeros(50)).all()
    assert not kept_at_random(torch.ones(50)).any()
