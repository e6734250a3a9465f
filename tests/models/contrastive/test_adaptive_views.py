"""GCA's adaptive augmentation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import community_dataset, undirected
from torch import Tensor

from grb_check.models.contrastive.adaptive_views import (
    DAMPING,
    MOST,
    adaptive_probabilities,
    eigenvector,
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


def test_the_leading_eigenvector_is_numpys() -> None:
    expected = torch.linalg.eigh(adjacency()).eigenvectors[:, -1].abs().float()
    torch.testing.assert_close(eigenvector(EDGES, 6), expected, atol=1e-6, rtol=0)


def test_pagerank_solves_its_equation() -> None:
    """r = (1 - d) 1 + d A D^-1 r, of mean 1 among the nodes that have edges."""
    shares = adjacency() / adjacency().sum(0).clamp(min=1)
    system = torch.eye(6, dtype=torch.float64) - DAMPING * shares
    expected = torch.linalg.solve(system, torch.full((6,), 1 - DAMPING, dtype=torch.float64))
    ranks = pagerank(EDGES, 6)
    torch.testing.assert_close(ranks, expected.float())
    assert float(ranks[:5].mean()) == pytest.approx(1, abs=1e-5)


@settings(deadline=None)
@given(st.lists(st.floats(0, 10, width=32), max_size=20), st.floats(0, 1))
def test_probabilities_stay_in_their_range(importance: list[float], rate: float) -> None:
    values = torch.tensor(importance)
    probabilities = adaptive_probabilities(values, rate)
    assert probabilities.shape == values.shape
    assert ((probabilities >= 0) & (probabilities <= MOST)).all()
    assert not probabilities.numel() or float(probabilities.mean()) <= rate + 1e-6
    order = values.argsort()
    assert (probabilities[order].diff() <= 1e-6).all()


def test_edges_are_kept_in_both_directions_or_in_none() -> None:
    torch.manual_seed(0)
    edges = COMMUNITIES.edge_index
    selected = kept_edges(edges, torch.full((edges.shape[1],), 0.5))
    assert 0.3 < selected.shape[1] / edges.shape[1] < 0.7
    assert torch.equal(undirected(selected), selected.unique(dim=1))
    numbers = edges[0] * 120 + edges[1]
    assert torch.isin(selected[0] * 120 + selected[1], numbers).all()
