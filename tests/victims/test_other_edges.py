"""Other edges among the nodes of graphs."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs
from torch_geometric.data import Batch, Data

from grb_check.victims.other_edges import other_edges


@given(graphs(), st.integers(0, 3))
def test_other_edges_are_as_many_and_none_is_there_twice(graph: Data, others: int) -> None:
    """Each within its graph, also beside graphs of one or two nodes."""
    pair = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    single = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long())
    plain = Data(x=graph.x[:, :1], edge_index=graph.edge_index)
    view = Batch.from_data_list([plain, *[pair, single] * others])
    edges = other_edges(view)
    assert edges.shape == view.edge_index.shape
    assert torch.unique(edges, dim=1).shape == edges.shape
    assert {*zip(*edges.tolist(), strict=True)} == {*zip(*edges.flip(0).tolist(), strict=True)}
    assert torch.equal(view.batch[edges[0]], view.batch[edges[1]])
    assert (edges[0] != edges[1]).all()
