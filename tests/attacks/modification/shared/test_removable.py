"""The greedy choice of edges that leaves each node an edge."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, pairs

from grb_check.attacks.modification.shared.edge_set import degrees_of, edges_at
from grb_check.attacks.modification.shared.removable import removable, within_capacity

ends = st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1])


@given(st.lists(ends, max_size=30), st.lists(st.integers(-1, 4), min_size=7, max_size=7))
@settings(deadline=None, max_examples=100)
def test_pairs_are_taken_in_order_while_there_is_room(candidates, capacity) -> None:
    """A pair is taken if and only if those taken before it leave room at both ends."""
    taken = within_capacity(pairs(candidates), torch.tensor(capacity)).tolist()
    used = Counter()
    for pair, is_taken in zip(candidates, taken, strict=True):
        assert is_taken == all(used[node] < capacity[node] for node in pair)
        used.update(pair if is_taken else ())


@given(graphs(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_no_node_loses_its_last_edge(graph, random) -> None:
    """For any order, and no further edge could be removed."""
    edges = edges_at(graph, torch.arange(graph.num_nodes))
    order = list(range(edges.shape[1]))
    random.shuffle(order)
    edges, degrees = edges[:, order], degrees_of(graph)
    gone = removable(edges, degrees, isolate=False)
    left = degrees - torch.bincount(edges[:, gone].flatten(), minlength=graph.num_nodes)
    assert (left[degrees > 0] >= 1).all()
    assert (left[edges[:, ~gone]] == 1).any(0).all()
    assert removable(edges, degrees, isolate=True).all()
