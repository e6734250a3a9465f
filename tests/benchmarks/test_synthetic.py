"""Synthetic graphs have exactly the sizes of their preset and about its shape; seeds repeat."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.synthetic import (
    DegreeShape,
    Preset,
    Synthetic,
    generate,
)

SMALL = Preset(
    name="synthetic-small",
    class_sizes=(300, 200, 100),
    num_edges=2400,
    num_features=12,
    degrees=DegreeShape(centre=1.9, below=0.5, above=0.6, tail=0.3),
    homophily=0.7,
    misplaced=0.1,
    signal=0.2,
    noise=0.55,
)


@st.composite
def presets(draw: st.DrawFn) -> Preset:
    """From sparse to a quarter of all pairs, with wishes for degrees that need not fit."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=2, max_size=5).filter(lambda s: sum(s) > 9))
    most = sum(sizes) * (sum(sizes) - 1) // 8
    spread = st.floats(0, 1.2)
    return Preset(
        name="synthetic-drawn",
        class_sizes=tuple(sizes),
        num_edges=draw(st.integers(1, most)),
        num_features=draw(st.integers(1, 5)),
        degrees=DegreeShape(
            centre=draw(st.floats(-2, 3)),
            below=draw(spread),
            above=draw(spread),
            tail=draw(spread),
        ),
        homophily=draw(st.floats(0, 0.95)),
        misplaced=draw(st.floats(0, 1)),
        signal=0.1,
        noise=0.5,
    )


def is_sound(graph: Synthetic, preset: Preset) -> None:
    """Exact counts; no self-loop, no duplicate, symmetric; sorted int32 indices."""
    adjacency, num_nodes = graph.adjacency, preset.num_nodes
    assert (num_nodes, num_nodes) == adjacency.shape
    assert 2 * preset.num_edges == adjacency.nnz
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32
    rows = np.repeat(np.arange(num_nodes), np.diff(adjacency.indptr))
    columns = adjacency.indices.astype(np.int64)
    keys = rows * num_nodes + columns
    assert (np.diff(keys) > 0).all()
    assert (rows != columns).all()
    np.testing.assert_array_equal(keys, np.sort(columns * num_nodes + rows))
    assert (adjacency.data == 1).all()
    assert (num_nodes, preset.num_features) == graph.features.shape
    assert graph.features.dtype == np.float32
    assert list(preset.class_sizes) == np.bincount(graph.labels).tolist()


@settings(deadline=None, max_examples=60)
@given(preset=presets(), seed=st.integers(0, 2**32))
def test_counts_are_exact_for_any_preset(preset: Preset, seed: int) -> None:
    """Nodes, edges, features and classes are those of the preset, even if degrees fall short."""
    is_sound(generate(preset, seed), preset)


def test_same_seed_gives_the_same_graph_and_another_seed_another() -> None:
    """The seed is the only source of randomness."""
    one, again, other = generate(SMALL, 3), generate(SMALL, 3), generate(SMALL, 4)
    assert (one.adjacency != again.adjacency).nnz == 0
    np.testing.assert_array_equal(one.features, again.features)
    np.testing.assert_array_equal(one.labels, again.labels)
    np.testing.assert_array_equal(one.split.train, again.split.train)
    assert (one.adjacency != other.adjacency).nnz > 0
    assert not np.array_equal(one.features, other.features)
