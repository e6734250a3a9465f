"""Properties of answers on graphs that few data sets have, but attackers and users make."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

from grb_check.conformance.model import CheckedModel, Draw, with_edges
from grb_check.conformance.structure import side_by_side
from grb_check.strategies import graphs


def any_size(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that every graph has finite logits, whatever the number of nodes in training."""
    model.answer(graph)


def single_node(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that a graph of one node has finite logits."""
    model.answer(Data(x=graph.x[:1], edge_index=graph.edge_index[:, :0]))


def no_edges(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that a graph without edges has finite logits."""
    model.answer(with_edges(graph, graph.edge_index[:, :0]))


def isolated_nodes(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that a graph in which some nodes have no edges has finite logits."""
    lonely = draw(graphs(features=model.num_features, max_nodes=3))
    model.answer(side_by_side(graph, with_edges(lonely, lonely.edge_index[:, :0])))


def hubs(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that a node with an edge to each of many others has finite logits."""
    leaves = draw(st.integers(1, 40))
    ends = torch.arange(1, leaves + 1)
    links = torch.stack([torch.zeros_like(ends), ends])
    x = graph.x[torch.arange(leaves + 1) % len(graph.x)]
    model.answer(Data(x=x, edge_index=torch.cat([links, links.flip(0)], dim=1)))


def self_loops(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that graphs with self-loops have finite logits."""
    nodes = draw(st.lists(st.integers(0, int(graph.num_nodes) - 1), unique=True, min_size=1))
    loops = torch.tensor(nodes, dtype=torch.int64).repeat(2, 1)
    model.answer(with_edges(graph, torch.cat([graph.edge_index, loops], dim=1)))
