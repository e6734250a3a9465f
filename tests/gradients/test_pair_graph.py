"""A graph in which some pairs have weights."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs, undirected
from torch_geometric.data import Data

from grb_check.gradients.pair_graph import pair_graph


@given(graphs(), st.data())
def test_a_graph_of_pairs_is_the_graph(graph: Data, data: st.DataObject) -> None:
    """With the present pairs chosen it has the same edges; with none, those are removed."""
    every = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    count = every.shape[1]
    selected = torch.tensor(
        data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=torch.bool
    )
    pairs = every[:, selected]
    graph_of_pairs = pair_graph(graph.edge_index, pairs, graph.num_nodes)
    old, chosen = undirected(graph), set(zip(*pairs.tolist(), strict=True))
    assert undirected(Data(edge_index=graph_of_pairs.real_edges(graph_of_pairs.present))) == old
    assert (
        undirected(Data(edge_index=graph_of_pairs.real_edges(~graph_of_pairs.present)))
        == old ^ chosen
    )
    weights = graph_of_pairs.weights(graph_of_pairs.present.float())
    assert weights.sum() == graph.edge_index.shape[1]
    assert weights.numel() == graph_of_pairs.edge_index.shape[1]
