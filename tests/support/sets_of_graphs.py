"""Small sets of graphs as PyG batches: a hypothesis strategy, and two classes told by triangles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from hypothesis import strategies as st
from strategies import graph_of
from torch_geometric.data import Batch, Data

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def graph_batches(draw: Draw, max_graphs: int = 6, max_nodes: int = 7) -> Batch:
    """2 to `max_graphs` graphs of 1 to `max_nodes` nodes, from no edge to complete; 3 features."""
    graphs: list[Data] = []
    for label in draw(st.lists(st.integers(0, 1), min_size=2, max_size=max_graphs)):
        num_nodes = draw(st.integers(1, max_nodes))
        possible = list(combinations(range(num_nodes), 2))
        edges = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
        seed = draw(st.integers(0, 2**16))
        x = torch.rand((num_nodes, 3), generator=torch.Generator().manual_seed(seed))
        graphs.append(graph_of(num_nodes, edges, x=x, y=torch.tensor([label])))
    return Batch.from_data_list(graphs)


def rings_and_triangles(count: int, *, seed: int = 0) -> Batch:
    """Graphs of 6 nodes, half of them a ring of six (class 0), half two triangles with a bridge.

    Nodes are in random order. Three have one colour, three another: neighbours on the ring differ,
    nodes of a triangle do not. Features are the colours and noise.
    """
    generator = torch.Generator().manual_seed(seed)
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)]
    triangles = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]
    graphs: list[Data] = []
    for label in (torch.arange(count) % 2).tolist():
        order = torch.randperm(6, generator=generator).tolist()
        edges = [(order[a], order[b]) for a, b in (triangles if label else ring)]
        edges = [(min(pair), max(pair)) for pair in edges]
        colour = torch.tensor([0, 0, 0, 1, 1, 1] if label else [0, 1, 0, 1, 0, 1])
        x = torch.rand((6, 3), generator=generator) / 5
        x[order, colour] += 1
        graphs.append(graph_of(6, edges, x=x, y=torch.tensor([label])))
    return Batch.from_data_list(graphs)
