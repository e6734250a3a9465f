"""Tests of the centralities against counting and dense solvers."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from strategies import graph_of, graphs

from grb_check.attacks.modification.shared import centrality
from grb_check.attacks.modification.shared.edge_set import adjacency_of


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def counted(adjacency: np.ndarray) -> np.ndarray:
    """Return the betweenness by powers of the adjacency: paths as long as the distance."""
    size = len(adjacency)
    distance = np.where(np.eye(size) > 0, 0.0, np.inf)
    paths, power = np.eye(size), np.eye(size)
    for length in range(1, size):
        power = power @ adjacency
        new = np.isinf(distance) & (power > 0)
        distance[new], paths[new] = length, power[new]
    through = np.zeros(size)
    for v in range(size):
        between = distance[:, [v]] + distance[[v], :] == distance
        between &= np.isfinite(distance) & ~np.eye(size, dtype=bool)
        between[v, :] = between[:, v] = False
        share = np.outer(paths[:, v], paths[v]) / np.where(paths > 0, paths, 1.0)
        through[v] = share[between].sum()
    return through


@given(graphs())
@settings(deadline=None, max_examples=80)
def test_betweenness_from_all_sources_counts_shortest_paths(graph) -> None:
    """For any graph, with both directions of each pair."""
    adjacency = adjacency_of(graph)
    result = centrality.betweenness(adjacency, generator())
    assert np.allclose(counted(adjacency.toarray()), result)


def test_eigenvector_is_the_dense_solvers() -> None:
    """Sparse and dense solver agree on a connected graph of 60 nodes."""
    draw = np.random.default_rng(0)
    edges = {(i, i + 1) for i in range(59)} | {
        tuple(sorted(pair)) for pair in draw.integers(0, 60, (80, 2)).tolist() if len(set(pair)) > 1
    }
    adjacency = adjacency_of(graph_of(60, sorted(edges)))
    expected = np.abs(np.linalg.eigh(adjacency.toarray())[1][:, -1])
    assert np.allclose(expected, centrality.eigenvector(adjacency, generator()), atol=1e-6)


def test_degrees_stay_whole_and_others_keep_their_order() -> None:
    """Sums of two of the integers compare exactly."""
    assert centrality.as_integers(np.array([3.0, 0.0, 2.0])).tolist() == [3, 0, 2]
    scores = centrality.as_integers(np.array([0.1, 1e-9, 0.3]))
    assert scores.argsort().tolist() == [1, 0, 2]
    assert scores.max() == centrality.STEPS
