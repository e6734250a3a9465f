"""Synthetic graphs have exactly the sizes of their preset and about its shape; seeds repeat."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from benchmarks.synthetic import (
    PRESETS,
    DegreeShape,
    Preset,
    Synthetic,
    generate,
    prepare,
)
from grb_check.datasets import find, load
from grb_check.datasets.reading import dense
from grb_check.errors import UsageError

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

PUBLISHED = {  # GRB, tables 2 and 4: nodes, edges, features, classes; degrees by level, in all
    "synthetic-flickr": ((89_250, 449_878, 500, 7), (5.00, 6.02, 11.03), 10.08),
    "synthetic-reddit": ((232_965, 11_606_919, 602, 41), (29.23, 68.36, 150.99), 99.65),
    "synthetic-aminer": ((659_574, 2_878_577, 100, 18), (1.99, 5.12, 13.25), 8.73),
}


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


def test_blocks_do_not_change_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of rows drawn at a time affects memory only."""
    whole = generate(SMALL, 0).features
    monkeypatch.setattr(dense, "BLOCK_VALUES", 100)
    np.testing.assert_array_equal(whole, generate(SMALL, 0).features)


def test_presets_have_the_published_sizes() -> None:
    """Table 2 of GRB."""
    sizes = {
        name: (p.num_nodes, p.num_edges, p.num_features, len(p.class_sizes))
        for name, p in PRESETS.items()
    }
    assert {name: figures[0] for name, figures in PUBLISHED.items()} == sizes


def inside(graph: Synthetic) -> float:
    """Share of edges that join nodes of one class."""
    rows = np.repeat(graph.labels, np.diff(graph.adjacency.indptr))
    return float((rows == graph.labels[graph.adjacency.indices]).mean())


def accuracy_of_centres(preset: Preset, graph: Synthetic) -> float:
    """Accuracy of the nearest class centre, made from the training nodes, on 10,000 test nodes."""
    train, test = graph.split.train, graph.split.full[:10_000]
    classes = range(len(preset.class_sizes))
    features, labels = graph.features[train], graph.labels[train]
    centres = np.stack([features[labels == c].mean(axis=0) for c in classes])
    scores = graph.features[test] @ centres.T - np.square(centres).sum(axis=1) / 2
    return float((scores.argmax(axis=1) == graph.labels[test]).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "homophily"), [("flickr", 0.4)])
def test_large_graphs_have_their_shape(name: str, homophily: float) -> None:
    """Degrees of the levels within 10 % of Table 4, homophily within 0.05; features tell something
    of the class, and far from all."""
    preset = PRESETS[f"synthetic-{name}"]
    graph = generate(preset, 0)
    is_sound(graph, preset)
    degrees = np.diff(graph.adjacency.indptr)
    _, levels, mean = PUBLISHED[preset.name]
    parts = (graph.split.easy, graph.split.medium, graph.split.hard)
    assert levels == pytest.approx([degrees[part].mean() for part in parts], rel=0.1)
    assert mean == pytest.approx(degrees.mean(), abs=0.01)
    assert homophily == pytest.approx(inside(graph), abs=0.05)
    largest = max(preset.class_sizes) / preset.num_nodes
    assert largest + 0.1 < accuracy_of_centres(preset, graph) < 0.7


@pytest.fixture
def small_preset(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which `prepare` finds a preset that takes no time."""
    monkeypatch.setattr(synthetic, "PRESETS", {SMALL.name: SMALL})
    return SMALL.name


def test_prepared_folder_is_loaded_like_any_other(small_preset: str, tmp_path: Path) -> None:
    """`find` and `load` take it, with the sizes of the preset and its own split."""
    folder = prepare(small_preset, tmp_path / "home")
    assert tmp_path / "home" / small_preset == folder
    dataset = load(find(str(folder)))
    sizes = (dataset.num_nodes, dataset.num_edges, dataset.num_features, dataset.num_classes)
    assert sizes == (600, 2400, 12, 3)
    np.testing.assert_array_equal(generate(SMALL, 0).split.hard, dataset.test["hard"])


def test_folder_is_made_once(small_preset: str, tmp_path: Path) -> None:
    """The second call finds the first one's files and does not touch them."""
    before = {path: path.stat().st_mtime_ns for path in prepare(small_preset, tmp_path).iterdir()}
    after = {path: path.stat().st_mtime_ns for path in prepare(small_preset, tmp_path).iterdir()}
    assert before == after


def test_incomplete_folder_is_completed(small_preset: str, tmp_path: Path) -> None:
    """A file that is gone is made again."""
    folder = prepare(small_preset, tmp_path)
    expected = load(find(str(folder))).fingerprint()
    (folder / "labels.npz").unlink()
    assert expected == load(find(str(prepare(small_preset, tmp_path)))).fingerprint()


def test_each_seed_has_a_folder(small_preset: str, tmp_path: Path) -> None:
    """Another seed is another graph under another name."""
    one, other = prepare(small_preset, tmp_path), prepare(small_preset, tmp_path, seed=5)
    assert other.name == "synthetic-small-seed-5"
    assert load(find(str(one))).fingerprint() != load(find(str(other))).fingerprint()


def test_unknown_name_is_refused(tmp_path: Path) -> None:
    """The message lists the names there are, and nothing is made."""
    with pytest.raises(UsageError, match="'synthetic-mars': known are synthetic-flickr, "):
        prepare("synthetic-mars", tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("seed", [-1, -(2**40)])
def test_negative_seed_is_refused(small_preset: str, tmp_path: Path, seed: int) -> None:
    """It would be an error from within numpy."""
    with pytest.raises(UsageError, match=f"the seed is {seed}; give 0"):
        prepare(small_preset, tmp_path, seed=seed)


@pytest.mark.parametrize("edges", [0, -1, 44_926])
def test_impossible_number_of_edges_is_refused(edges: int) -> None:
    """600 nodes have 179,700 pairs, of which a quarter may be edges."""
    with pytest.raises(UsageError, match=r"with 600 nodes, 1 to 44925 are allowed"):
        dataclasses.replace(SMALL, num_edges=edges)
