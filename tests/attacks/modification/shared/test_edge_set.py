"""Edges as sorted numbers: set operations, and conversion to pairs."""

from __future__ import annotations

from itertools import combinations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, pairs, undirected

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set


def flips_of(data, graph) -> tuple[set[tuple[int, int]], torch.Tensor]:
    """Pairs of nodes in any order, and their codes with ends in either order."""
    every = list(combinations(range(graph.num_nodes), 2))
    chosen = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    turned = [pair[::-1] if data.draw(st.booleans()) else pair for pair in chosen]
    return set(chosen), edge_set(graph).encode(pairs(turned))


@given(st.data())
@settings(deadline=None, max_examples=30)
def test_flipped_edges_are_the_symmetric_difference(data) -> None:
    """As with Python's sets; flipping twice is the identity; codes ascend for any order."""
    graph = data.draw(graphs())
    clean, (chosen, flips) = edge_set(graph), flips_of(data, graph)
    after = clean.flipped(flips)
    expected = undirected(graph) ^ chosen
    assert expected == {tuple(pair) for pair in after.ends(after.codes).T.tolist()}
    assert after.codes.tolist() == sorted(after.codes.tolist())
    assert torch.equal(clean.codes, after.flipped(flips).codes)
    directed = {tuple(pair) for pair in after.edge_index().T.tolist()}
    assert after.edge_index().shape[1] == 2 * len(expected) == len(directed)
    assert directed == expected | {pair[::-1] for pair in expected}
    degrees = torch.bincount(after.edge_index()[0], minlength=graph.num_nodes)
    assert torch.equal(degrees, after.degrees())


@given(st.data(), st.floats(0, 1, width=32))
@settings(deadline=None, max_examples=30)
def test_partly_flipped_edges_lie_between_none_and_all(data, weight) -> None:
    """Weight 0 gives the edges as they are and 1 the flipped ones; other edges have weight 1."""
    graph = data.draw(graphs())
    clean, (_, flips) = edge_set(graph), flips_of(data, graph)
    edges, weights = clean.partly_flipped(flips, torch.full((flips.numel(),), weight))
    assert edges.codes.tolist() == sorted({*clean.codes.tolist(), *flips.tolist()})
    before, after = (current.has(edges.codes).float() for current in (clean, clean.flipped(flips)))
    assert torch.allclose(weights, (1 - weight) * before + weight * after)


def test_codes_of_billions_of_nodes_do_not_overflow() -> None:
    """Codes exceed int32."""
    num_nodes = 3_000_000_000
    ends = torch.tensor([[num_nodes - 1, 0, 7], [num_nodes - 2, num_nodes - 1, 5]])
    empty = EdgeSet(torch.empty(0, dtype=torch.int64), num_nodes)
    assert torch.equal(ends.sort(dim=0).values, empty.ends(empty.encode(ends)))
