"""Graphs as code: what is printed makes the graph."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from grb_check import strategies
from grb_check.conformance.results import as_code


def made(code: tuple[str, ...]) -> Data:
    graph = eval("\n".join(code), {"torch": torch, "Data": Data})
    assert isinstance(graph, Data)
    return graph


@given(graph=st.sampled_from([1, 3, 30]).flatmap(lambda d: strategies.graphs(features=d)))
def test_the_code_of_a_graph_makes_it(graph: Data) -> None:
    """Written out, or by the places of values that are not 0."""
    rebuilt = made(as_code(graph))
    assert torch.equal(rebuilt.x, graph.x)
    assert torch.equal(rebuilt.edge_index, graph.edge_index)


@given(batch=strategies.batches())
def test_the_code_of_a_batch_says_which_graph_a_node_is_of(batch: Batch) -> None:
    """Which models of graphs are called with."""
    assert torch.equal(made(as_code(batch)).batch, batch.batch)
