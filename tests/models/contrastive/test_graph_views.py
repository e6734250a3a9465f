"""Views of many graphs: sizes, connectedness, and no edges between graphs."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sets_of_graphs import graph_batches
from torch import Tensor
from torch_geometric.data import Batch

from grb_check.models.contrastive.graph_views import (
    edges_kept,
    nodes_kept,
    random_view,
    reverse_edges,
    subgraph_kept,
)
from grb_check.training.graph_unions import Graphs, graphs_of

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
def test_edges_stay_or_go_in_both_directions(data: Batch, ratio: float, seed: int) -> None:
    """All are kept at a ratio of 0, none at 1."""
    torch.manual_seed(seed)
    graphs = graphs_of(data)
    retained = edges_kept(graphs, ratio)
    back = reverse_edges(graphs)
    assert torch.equal(graphs.edge_index[:, back], graphs.edge_index.flip(0))
    assert torch.equal(retained, retained[back])
    assert ratio > 0 or bool(retained.all())
    assert ratio < 1 or not retained.any()


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
