"""Relaxed flips of many graphs, keyed random numbers, and rows of flips."""

from __future__ import annotations

import pytest
import torch
from graph_unions import unions, victim_on
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.graph_sets.graph_list import (
    budgets_and_starts,
    graph_list,
    no_flips,
)
from grb_check.attacks.graph_sets.relaxed_flips import RelaxedRows
from grb_check.attacks.threat import Perturbation, Threat, apply

few = settings(deadline=None, max_examples=40)


def test_largest_weights_are_taken_up_to_each_budget() -> None:
    relaxed = RelaxedRows(
        torch.tensor([[5, 7, 9], [4, 6, -1]]), torch.tensor([[0.2, 0.0, 0.9], [0.5, 0.5, 0.0]])
    )
    flips = relaxed.largest(torch.tensor([2, 1]), 4)
    assert flips.tolist() == [[9, 5, -1, -1], [4, -1, -1, -1]]


def test_negligible_weights_make_room_for_others() -> None:
    relaxed = RelaxedRows(torch.tensor([[5, 7], [4, 6]]), torch.tensor([[1e-9, 0.5], [0.5, 0.4]]))
    retained = relaxed.without_negligible()
    assert retained.codes.tolist() == [[7, -1], [4, 6]]
    wider = retained.joined(torch.tensor([[1, 2], [3, -1]]))
    assert wider.codes.tolist() == [[7, 1, 2], [4, 6, 3]]
    assert wider.weights.tolist() == pytest.approx(torch.tensor([[0.5, 0, 0], [0.5, 0.4, 0]]))


@given(unions(), st.data())
@few
def test_a_copy_with_flips_is_the_attacked_graph(union, data) -> None:
    """Copies in any order and number have the logits of the graph with these flips."""
    graph, threat = union
    victim = victim_on(graph)
    graphs = graph_list(graph, threat, victim)
    owners = data.draw(st.lists(st.sampled_from(range(graph.y.numel())), min_size=1, max_size=5))
    flips = no_flips(len(owners), 3, graphs.starts)
    for row, owner in enumerate(owners):
        size = int(graphs.sizes[owner])
        codes = [a * size + b for a in range(size) for b in range(a + 1, size)]
        some = data.draw(st.lists(st.sampled_from(codes), unique=True, max_size=3)) if codes else []
        flips[row, : len(some)] = torch.tensor(some, dtype=torch.int64)
    copies = graphs.copies(torch.tensor(owners), flips)
    row, column = copies.edge_index
    assert bool(((row * copies.x.shape[0] + column).diff() > 0).all())
    logits = graphs.logits(torch.tensor(owners), flips)
    for row, owner in enumerate(owners):
        size = int(graphs.sizes[owner])
        codes = flips[row][flips[row] >= 0]
        pairs = torch.stack([codes // size, codes % size]) + graphs.starts[owner]
        present = graphs.edges.has(graphs.edges.encode(pairs))
        perturbation = Perturbation(added_edges=pairs[:, ~present], removed_edges=pairs[:, present])
        after = apply(graph, perturbation)
        expected = victim(after.x, after.edge_index)[owner]
        assert torch.allclose(logits[row], expected, atol=1e-5)


def test_a_threat_to_nodes_has_no_graphs() -> None:
    with pytest.raises(ValueError, match="to nodes, not to graphs"):
        budgets_and_starts(
            Threat(scenario="modification", targets=torch.tensor([0]), edge_budget=1)
        )
