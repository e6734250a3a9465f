"""Properties of answers on one graph that is written down in several ways, or has several parts."""

from __future__ import annotations

from typing import Final

import torch
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from grb_check.conformance.model import CheckedModel, Draw, check_same, with_edges
from grb_check.errors import count
from grb_check.strategies import batches, graphs, relabeled, relabelings

FAR: Final = 32  # hops: deeper than the models of the literature, APPNP's 10 included


def permutation_equivariance(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that nodes may have other numbers."""
    expected = model.expected(graph)
    numbers = draw(relabelings(int(graph.num_nodes)))
    result = model.answer(relabeled(Data(x=graph.x, edge_index=graph.edge_index), numbers))
    result = result if model.of_graphs else result[numbers]
    check_same(result, expected, graph, f"nodes renamed {numbers.tolist()}")


def edge_order(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that edges may be listed in another order."""
    expected = model.expected(graph)
    order = draw(relabelings(int(graph.num_edges)))
    result = model.answer(with_edges(graph, graph.edge_index[:, order]))
    check_same(result, expected, graph, f"edges in the order {order.tolist()}")


def duplicate_edges(model: CheckedModel, graph: Data, draw: Draw) -> str:
    """Check that a graph with an edge that is listed twice has finite logits.

    Returns:
        Whether it counts once or twice: messages are sums over what is listed in most models.
    """
    expected = model.expected(graph)
    if not graph.num_edges:
        return ""
    positions = st.lists(st.integers(0, int(graph.num_edges) - 1), unique=True, min_size=1)
    again = graph.edge_index[:, torch.tensor(draw(positions), dtype=torch.int64)]
    twice = model.answer(with_edges(graph, torch.cat([graph.edge_index, again], dim=1)))
    same = torch.allclose(twice, expected, rtol=1e-4, atol=1e-4)
    return "" if same else "an edge that is listed twice is not one edge"


def separate_parts(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that a part without edges to the others is answered as if it were alone."""
    expected = model.expected(graph)
    other = draw(graphs(features=model.num_features))
    joined = side_by_side(graph, other)
    check_same(
        model.answer(joined)[: graph.num_nodes],
        expected,
        joined,
        f"the first {count(graph.num_nodes, 'node')} beside {other.num_nodes} of another part",
    )


def locality(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that nodes more than `FAR` hops away do not matter: their features and edges change."""
    first = int(graph.num_nodes)
    few = graphs(features=model.num_features, max_nodes=4)
    near, other = (_with_far_end(graph, draw(few)) for _ in range(2))
    check_same(
        model.answer(other)[:first],
        model.expected(near)[:first],
        other,
        f"a part of {count(first, 'node')}, with others more than {FAR} hops away",
    )


def batch_independence(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that each graph of a batch is answered as if it were alone."""
    batch = draw(batches(features=model.num_features, min_graphs=2))
    expected = torch.cat([model.expected(member) for member in batch.to_data_list()])
    check_same(model.answer(batch), expected, batch, "graphs of one batch")


def side_by_side(*parts: Data) -> Data:
    """Return one graph of several without an edge between them."""
    both = Batch.from_data_list([Data(x=part.x, edge_index=part.edge_index) for part in parts])
    return Data(x=both.x, edge_index=both.edge_index)


def _with_far_end(graph: Data, end: Data) -> Data:
    """Return the graph, a path of `FAR` nodes from its last node, and an end linked to the path."""
    first = int(graph.num_nodes)
    chain = torch.arange(first - 1, first + FAR + 1)
    links = torch.stack([chain[:-1], chain[1:]])
    edges = [graph.edge_index, links, links.flip(0), end.edge_index + first + FAR]
    middle = graph.x[-1:].expand(FAR, -1)
    return Data(x=torch.cat([graph.x, middle, end.x]), edge_index=torch.cat(edges, dim=1))
