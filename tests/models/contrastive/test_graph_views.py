"""Views of many graphs: sizes, connectedness, and no edges between graphs."""

from __future__ import annotations

import networkx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sets_of_graphs import graph_batches, rings_and_triangles
from torch import Tensor
from torch_geometric.data import Batch

from grb_check.models.contrastive.graph_views import (
    EDGES,
    FEATURES,
    KINDS,
    NODES,
    SUBGRAPH,
    edges_kept,
    features_masked,
    nodes_kept,
    random_view,
    reverse_edges,
    subgraph_kept,
    view_of_kinds,
)
from grb_check.training.graph_batches import Graphs, graphs_of

RATIOS = st.sampled_from([0.0, 0.2, 0.5, 1.0])
batches = given(data=graph_batches(), ratio=RATIOS, seed=st.integers(0, 99))


def counts_of(mask: Tensor, graphs: Graphs) -> list[int]:
    """The number of nodes of each graph in a mask."""
    return torch.bincount(graphs.batch[mask], minlength=graphs.count).tolist()


def shares(graphs: Graphs, ratio: float) -> list[int]:
    return [max(1, size - int(ratio * size)) for size in graphs.sizes.tolist()]


@settings(deadline=None, max_examples=15)
@batches
def test_each_graph_keeps_its_share_of_nodes(data: Batch, ratio: float, seed: int) -> None:
    """Exactly, but at least one; by node dropping and by subgraphs."""
    torch.manual_seed(seed)
    graphs = graphs_of(data)
    assert counts_of(nodes_kept(graphs, ratio), graphs) == shares(graphs, ratio)
    assert counts_of(subgraph_kept(graphs, ratio), graphs) == shares(graphs, ratio)


@settings(deadline=None, max_examples=15)
@batches
def test_a_subgraph_is_connected(data: Batch, ratio: float, seed: int) -> None:
    """It has several components only if it contains a whole component of its graph."""
    torch.manual_seed(seed)
    graphs = graphs_of(data)
    kept = subgraph_kept(graphs, ratio)
    whole = networkx.Graph()
    whole.add_nodes_from(range(kept.numel()))
    whole.add_edges_from(graphs.edge_index.t().tolist())
    inside = set(kept.nonzero().flatten().tolist())
    for number in range(graphs.count):
        nodes = (graphs.batch == number).nonzero().flatten().tolist()
        parts = list(networkx.connected_components(whole.subgraph(set(nodes) & inside)))
        split = [
            part for part in networkx.connected_components(whole.subgraph(nodes)) if part & inside
        ]
        if len(split) == 1:
            assert len(parts) == 1
        else:
            assert any(part <= inside for part in split)


@settings(deadline=None, max_examples=15)
@batches
def test_edges_stay_or_go_in_both_directions(data: Batch, ratio: float, seed: int) -> None:
    """All are kept at a ratio of 0, none at 1."""
    torch.manual_seed(seed)
    graphs = graphs_of(data)
    kept = edges_kept(graphs, ratio)
    back = reverse_edges(graphs)
    assert torch.equal(graphs.edge_index[:, back], graphs.edge_index.flip(0))
    assert torch.equal(kept, kept[back])
    assert ratio > 0 or bool(kept.all())
    assert ratio < 1 or not kept.any()


def test_edges_go_at_the_rate_that_is_asked_for() -> None:
    """2,600 edges of 400 graphs, a fifth of them dropped; five standard deviations are 3.9 %."""
    torch.manual_seed(0)
    graphs = graphs_of(rings_and_triangles(400))
    assert abs(float(edges_kept(graphs, 0.2).float().mean()) - 0.8) < 0.039


@settings(deadline=None, max_examples=15)
@batches
def test_masked_nodes_have_the_mean_of_their_graph(data: Batch, ratio: float, seed: int) -> None:
    """The others keep theirs."""
    torch.manual_seed(seed)
    graphs = graphs_of(data)
    x = features_masked(graphs, ratio)
    changed = (x != graphs.x).any(dim=1)
    for node in changed.nonzero().flatten().tolist():
        own = graphs.x[graphs.batch == graphs.batch[node]]
        torch.testing.assert_close(x[node], own.mean(dim=0))
    most = [
        size - kept for size, kept in zip(graphs.sizes.tolist(), shares(graphs, ratio), strict=True)
    ]
    assert all(a <= b for a, b in zip(counts_of(changed, graphs), most, strict=True))


@settings(deadline=None, max_examples=15)
@batches
def test_a_view_is_a_set_of_the_same_graphs(data: Batch, ratio: float, seed: int) -> None:
    """Edges are sorted, in both directions and within graphs; the input is not changed."""
    torch.manual_seed(seed)
    graphs = graphs_of(data)
    tensors = {name: value for name, value in graphs.__dict__.items() if value is not None}
    before = {name: value.clone() for name, value in tensors.items()}
    view = random_view(graphs, ratio)
    assert view.count == graphs.count
    assert torch.equal(view.y, graphs.y)
    assert torch.equal(view.sizes, torch.bincount(view.batch, minlength=view.count))
    first, second = view.batch[view.edge_index]
    assert torch.equal(first, second)
    keys = view.edge_index[0] * max(1, view.batch.numel()) + view.edge_index[1]
    assert bool((keys.diff() > 0).all())
    assert torch.equal(view.edge_index[:, reverse_edges(view)], view.edge_index.flip(0))
    assert all(torch.equal(value, before[name]) for name, value in tensors.items())


def test_each_kind_changes_what_it_names() -> None:
    """Nodes, edges, features, or all nodes outside a subgraph; only in graphs of that kind."""
    torch.manual_seed(0)
    graphs = graphs_of(rings_and_triangles(400))
    kinds = torch.arange(400) % KINDS
    view = view_of_kinds(graphs, kinds, 0.5)
    of_nodes = kinds[view.batch]
    sizes = torch.bincount(of_nodes, minlength=KINDS).tolist()
    expected = {NODES: 300, EDGES: 600, FEATURES: 600, SUBGRAPH: 300}
    assert sizes == [expected[kind] for kind in range(KINDS)]
    degrees = torch.bincount(of_nodes[view.edge_index[0]], minlength=KINDS)
    full = torch.bincount(kinds[graphs.batch[graphs.edge_index[0]]], minlength=KINDS)
    assert torch.equal(degrees[FEATURES], full[FEATURES])
    assert (degrees[[NODES, EDGES, SUBGRAPH]] < 0.7 * full[[NODES, EDGES, SUBGRAPH]]).all()
    unchanged = of_nodes == EDGES
    assert torch.equal(view.x[unchanged], graphs.x[kinds[graphs.batch] == EDGES])
    changed = (view.x[of_nodes == FEATURES] != graphs.x[kinds[graphs.batch] == FEATURES]).any(dim=1)
    assert int(changed.sum()) == 300
