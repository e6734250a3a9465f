"""Relaxed flips of many graphs, keyed random numbers, and rows of flips."""

from __future__ import annotations

import pytest
import torch
from graph_unions import threat_to, union_of, unions, victim_on
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.graph_sets.graph_list import (
    append_flips,
    budgets_and_starts,
    graph_list,
    no_flips,
)
from grb_check.attacks.graph_sets.keyed_random import uniform
from grb_check.attacks.graph_sets.relaxed_flips import RelaxedRows, without
from grb_check.attacks.threat import Perturbation, Threat, apply

few = settings(deadline=None, max_examples=40)


def test_largest_weights_are_taken_up_to_each_budget() -> None:
    relaxed = RelaxedRows(
        torch.tensor([[5, 7, 9], [4, 6, -1]]), torch.tensor([[0.2, 0.0, 0.9], [0.5, 0.5, 0.0]])
    )
    found = relaxed.largest(torch.tensor([2, 1]), 4)
    assert found.tolist() == [[9, 5, -1, -1], [4, -1, -1, -1]]


def test_negligible_weights_make_room_for_others() -> None:
    relaxed = RelaxedRows(torch.tensor([[5, 7], [4, 6]]), torch.tensor([[1e-9, 0.5], [0.5, 0.4]]))
    kept = relaxed.without_negligible()
    assert kept.codes.tolist() == [[7, -1], [4, 6]]
    wider = kept.joined(torch.tensor([[1, 2], [3, -1]]))
    assert wider.codes.tolist() == [[7, 1, 2], [4, 6, 3]]
    assert wider.weights.tolist() == pytest.approx(torch.tensor([[0.5, 0, 0], [0.5, 0.4, 0]]))


def test_codes_of_another_row_do_not_count() -> None:
    found = without(torch.tensor([[1, 2], [1, -1]]), torch.tensor([[2, -1], [5, -1]]))
    assert found.tolist() == [[1, -1], [1, -1]]


def test_flips_find_the_free_places() -> None:
    found = append_flips(torch.tensor([[3, -1, -1], [3, 4, -1]]), torch.tensor([[-1, 8], [7, -1]]))
    assert found.tolist() == [[3, 8, -1], [3, 4, 7]]


def test_draws_depend_on_key_and_counters_only() -> None:
    """They do not depend on what else is drawn; another key gives other numbers."""
    graphs, pairs = torch.arange(5)[:, None], torch.arange(1000)
    drawn = uniform(1, graphs, pairs)
    assert torch.equal(drawn[3, 10:20], uniform(1, torch.tensor(3), torch.arange(10, 20)))
    assert not torch.equal(drawn, uniform(2, graphs, pairs))
    assert not torch.equal(drawn[0], drawn[1])


def test_draws_are_uniform() -> None:
    """Counts in each tenth are within 5 standard deviations (error rate below 1e-5), and
    neighbours are independent."""
    count = 100_000
    drawn = uniform(0, torch.arange(count))
    assert 0 <= float(drawn.min()) < float(drawn.max()) < 1
    found = torch.bincount((10 * drawn).long(), minlength=10)
    assert (found - count / 10).abs().max() < 5 * (count * 0.09) ** 0.5
    correlation = torch.corrcoef(torch.stack([drawn[1:], drawn[:-1]]))[0, 1]
    assert abs(float(correlation)) < 5 / count**0.5


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
    found = graphs.logits(torch.tensor(owners), flips)
    for row, owner in enumerate(owners):
        size = int(graphs.sizes[owner])
        codes = flips[row][flips[row] >= 0]
        pairs = torch.stack([codes // size, codes % size]) + graphs.starts[owner]
        present = graphs.edges.has(graphs.edges.encode(pairs))
        made = Perturbation(added_edges=pairs[:, ~present], removed_edges=pairs[:, present])
        after = apply(graph, made)
        expected = victim(after.x, after.edge_index)[owner]
        assert torch.allclose(found[row], expected, atol=1e-5)


def test_graphs_that_are_not_targets_have_no_budget() -> None:
    graph = union_of([2, 3, 1], [[], [], []])
    budgets, starts = budgets_and_starts(threat_to(graph, [1, 2, 3], [2, 0]))
    assert budgets.tolist() == [1, 0, 3]
    assert starts.tolist() == [0, 2, 5, 6]


def test_a_threat_to_nodes_has_no_graphs() -> None:
    with pytest.raises(ValueError, match="to nodes, not to graphs"):
        budgets_and_starts(
            Threat(scenario="modification", targets=torch.tensor([0]), edge_budget=1)
        )
