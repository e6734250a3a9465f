"""Changes of a spectrum, against dense eigenvalues."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import graph_of, graphs, undirected

from grb_check.attacks.modification.shared import spectra
from grb_check.attacks.modification.shared.edge_set import adjacency_of

few = settings(deadline=None, max_examples=80)


def matrix_of(adjacency: np.ndarray) -> np.ndarray:
    """Return the filter S of a dense weighted adjacency."""
    loops = adjacency + np.eye(len(adjacency))
    scale = loops.sum(1) ** -0.5
    return scale[:, None] * loops * scale


def with_weight(adjacency: np.ndarray, pair, change: float) -> np.ndarray:
    changed = adjacency.copy()
    changed[pair[0], pair[1]] += change
    changed[pair[1], pair[0]] += change
    return changed


@given(graphs(), st.data())
@few
def test_change_of_the_energy_is_exact(graph, data) -> None:
    """It equals the difference of the sums of squared eigenvalues."""
    assume(graph.num_nodes > 1)
    pair = data.draw(st.sampled_from(list(combinations(range(graph.num_nodes), 2))))
    added = pair not in undirected(graph)
    adjacency = adjacency_of(graph)
    dense = adjacency.toarray()
    before = (np.linalg.eigvalsh(matrix_of(dense)) ** 2).sum()
    flipped = with_weight(dense, pair, 1.0 if added else -1.0)
    after = (np.linalg.eigvalsh(matrix_of(flipped)) ** 2).sum()
    changes = spectra.energy_changes(adjacency, np.array(pair)[:, None], added=added)
    assert pytest.approx(after - before, abs=1e-9) == changes[0]
    assert pytest.approx(before, abs=1e-9) == spectra.energy(adjacency)


@given(graphs(), st.data())
@few
def test_changes_to_first_order_are_derivatives(graph, data) -> None:
    """It equals the change of the weighted sum of eigenvalues by a small weight of the pair.

    The weights follow a smooth function of the eigenvalues, so that groups of equal ones, which
    complete graphs and graphs of few edges have, need no bookkeeping.
    """
    assume(graph.num_nodes > 1)
    pair = data.draw(st.sampled_from(list(combinations(range(graph.num_nodes), 2))))
    adjacency = adjacency_of(graph)
    spectrum = spectra.leading_spectrum(adjacency, 50)
    ends = np.array(pair)[:, None]
    slopes = 3.0 * spectrum.values**2  # of the cube
    changes = spectra.weighted_changes(spectrum, slopes, ends, added=True)
    changes = changes + 3.0 * spectra.trivial_changes(spectrum, ends, added=True)
    step = 1e-5
    sums = [
        (np.linalg.eigvalsh(matrix_of(with_weight(adjacency.toarray(), pair, change))) ** 3).sum()
        for change in (-step, step)
    ]
    assert pytest.approx((sums[1] - sums[0]) / (2 * step), abs=1e-6) == changes[0]
    removed = spectra.weighted_changes(spectrum, slopes, ends, added=False)
    removed = removed + 3.0 * spectra.trivial_changes(spectrum, ends, added=False)
    assert pytest.approx(-changes[0]) == removed[0]


def some_graph():
    """Two components and two isolated nodes, 80 nodes in all."""
    draw = np.random.default_rng(1)
    edges = {(i, i + 1) for i in range(59)} | {(i, i + 1) for i in range(60, 77)}
    more = draw.integers(0, 60, (60, 2)).tolist()
    return graph_of(80, sorted(edges | {(min(p), max(p)) for p in more if p[0] != p[1]}))


def test_sparse_solver_finds_what_the_dense_one_does() -> None:
    """The largest nine eigenvalues below the four trivial ones, and their subspace."""
    adjacency = adjacency_of(some_graph())
    values, vectors = np.linalg.eigh(matrix_of(adjacency.toarray()))
    values, vectors = values[::-1], vectors[:, ::-1]
    result = spectra.leading_spectrum(adjacency, 10)  # 80 > 4 * 10 nodes
    assert np.allclose(1.0, values[:4])
    assert np.allclose(values[4:13], result.values[:9], atol=1e-5)
    root = np.sqrt(adjacency.sum(axis=1) + 1.0)
    embedding = result.vectors[:, :9] * root[:, None]
    assert np.allclose(np.eye(9), embedding.T @ embedding, atol=1e-6)
    assert np.allclose(1.0, (vectors[:, 4:13].T @ embedding)[range(9), range(9)] ** 2, atol=1e-3)
