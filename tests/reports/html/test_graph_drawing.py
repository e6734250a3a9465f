"""Small graphs on a circle."""

from __future__ import annotations

import math
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from grb_check import strategies
from grb_check.reports.html.graph_drawing import MARGIN, graph_drawing


@given(graph=strategies.graphs(max_nodes=30), data=st.data())
def test_every_node_has_room_and_every_edge_is_one_line(graph: Data, data: st.DataObject) -> None:
    """In both directions or in one."""
    ends = [(int(a), int(b)) for a, b in graph.edge_index.T]
    kept = [each for each in ends if each[0] < each[1] or data.draw(st.booleans())]
    nodes = int(graph.num_nodes)
    found = graph_drawing(nodes, kept)
    assert [each.number for each in found.nodes] == list(range(nodes))
    assert all(MARGIN - 1 <= c <= found.size - MARGIN + 1 for _, *xy in found.nodes for c in xy)
    apart = [math.dist(a[1:], b[1:]) for a, b in combinations(found.nodes, 2)]
    assert min(apart, default=99) > 18  # two radii of a node
    drawn = {frozenset((a.number, b.number)) for a, b in found.lines}
    assert drawn == {frozenset(each) for each in kept}
    assert len(drawn) == len(found.lines)
