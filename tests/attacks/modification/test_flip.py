"""Pairs of lowest sum, against a list of all pairs."""

from __future__ import annotations

from itertools import combinations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, threats, undirected

from grb_check.attacks.modification.flip import lowest_pairs
from grb_check.attacks.modification.shared.edge_set import edges_at


def found(graph, scores, targets, count, seed=0) -> list[tuple[int, int]]:
    generator = torch.Generator().manual_seed(seed)
    edges = edges_at(graph, targets)
    result = lowest_pairs(torch.tensor(scores), targets, edges, count, generator)
    return [tuple(pair) for pair in result.t().tolist()]


@given(st.data(), st.integers(0, 40), st.sampled_from([1, 3, 2**40]))
@settings(deadline=None, max_examples=80)
def test_sums_are_those_of_the_best_of_all_pairs(data, wanted, largest) -> None:
    """Pairs are distinct, at targets and no edges; no lower sum is left out."""
    graph = data.draw(graphs())
    targets = data.draw(threats(graph, "modification")).targets
    size = graph.num_nodes
    scores = data.draw(st.lists(st.integers(0, largest), min_size=size, max_size=size))
    near, present = set(targets.tolist()), undirected(graph)
    allowed = {p for p in combinations(range(size), 2) if near & set(p)} - present
    expected = sorted(scores[a] + scores[b] for a, b in allowed)[:wanted]
    got = found(graph, scores, targets, wanted)
    assert len(got) == len(set(got))
    assert set(got) <= allowed
    assert expected == sorted(scores[a] + scores[b] for a, b in got)
