"""Rounds of many flips: no common ends, within bounds, and what counts for each flip."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, UnweightedModel, graph_of, graphs
from torch import Tensor

from grb_check.attacks.edges import flip_sweeps
from grb_check.attacks.edges.edge_set import edge_set
from grb_check.attacks.edges.flip_sweeps import IDLE, Question, Round, State, sweep

NONE = torch.empty(0, dtype=torch.int64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def question_of(graph, model, budget: int, **bounds) -> Question:
    """All nodes are targets, and right at first."""
    targets = torch.arange(graph.num_nodes)
    labels = model(graph.x, graph.edge_index).argmax(1)
    return Question(model, graph.x, edge_set(graph), targets, labels, budget, **bounds)


def ends_of(question: Question, flips: Tensor) -> Tensor:
    return torch.bincount(question.clean.ends(flips).flatten(), minlength=question.clean.num_nodes)


@given(
    graphs().filter(lambda graph: graph.num_nodes > 1),
    st.integers(1, 6),
    st.integers(0, 2**16),
    st.booleans(),
    st.data(),
)
@settings(deadline=None, max_examples=60)
def test_a_round_changes_each_node_once_and_keeps_all_bounds(graph, budget, seed, isolate, data):
    """What is tried differs from before by flips without common ends; so does what is made."""
    nodes = graph.num_nodes
    room = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes)))
    model = LinearModel(graph.x.shape[1], 3)
    question = question_of(graph, model, budget, isolate=isolate, room=room)
    generator, state = seeded(seed), State(NONE, question.margins(NONE))
    for _ in range(4):
        step = Round(question, state, generator)
        tried = step.flips()
        assert tried.unique().numel() == tried.numel()
        changed = torch.cat([tried, state.flips]).unique(return_counts=True)
        assert int(ends_of(question, changed[0][changed[1] == 1]).max()) <= 1
        flips = step.after(question.margins(tried), 0.5, data.draw(st.integers(0, step.room)))
        assert flips.unique().numel() == flips.numel() <= budget
        assert (ends_of(question, flips) <= room).all()
        kept = question.clean.flipped(flips)
        if not isolate:
            assert (kept.degrees() > 0)[question.clean.degrees() > 0].all()
        state = State(flips, question.margins(flips))


@given(graphs().filter(lambda graph: graph.num_nodes > 1), st.integers(0, 2**16))
@settings(deadline=None, max_examples=40)
def test_all_that_a_single_flip_does_counts_for_it(graph, seed):
    """With one layer only its ends and their neighbours change."""
    model = LinearModel(graph.x.shape[1], 3)
    question = question_of(graph, model, 1)
    pairs = torch.tensor(list(combinations(range(graph.num_nodes), 2))).T
    pair = pairs[:, torch.randint(pairs.shape[1], (1,), generator=seeded(seed))]
    state = State(NONE, question.margins(NONE))
    step = Round(question, state, seeded(seed))
    step._new, step._back = question.clean.encode(pair), NONE
    margins = question.margins(step.flips())
    gains = step._gains_at_nodes(margins, 0.5)
    expected = (torch.sigmoid(margins / 0.5) - torch.sigmoid(state.margins / 0.5)).sum()
    torch.testing.assert_close(gains[pair].sum(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("isolate", [True, False])
def test_a_sweep_is_stronger_than_as_many_random_flips(isolate) -> None:
    """It takes several times as many targets."""
    ends = torch.randint(200, (600, 2), generator=seeded()).tolist()
    chosen = sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]})
    graph = graph_of(200, chosen, x=torch.randn((200, 4), generator=seeded(1)))
    question = question_of(graph, UnweightedModel(4, 3), 30, isolate=isolate)
    pairs = torch.randint(200, (2, 60), generator=seeded(2))
    random = question.possible(pairs, NONE)[:30]
    found = sweep(question, NONE, 60, seeded())

    def lost(flips: Tensor) -> int:
        return 200 - State(flips, question.margins(flips)).right

    assert found.numel() <= 30
    assert lost(found) >= 2 * lost(random) > 0


def test_a_model_that_ignores_edges_is_left(monkeypatch) -> None:
    """After `IDLE` rounds in which nothing changed; the flips are those given."""
    graph = graph_of(20, [(0, 1), (2, 3)], x=torch.randn((20, 3), generator=seeded()))
    calls = []

    def rows(x: Tensor, edge_index: Tensor) -> Tensor:
        calls.append(edge_index)
        return x

    question = question_of(graph, rows, 5)
    monkeypatch.setattr(flip_sweeps, "IDLE", 3)
    assert sweep(question, NONE, 100, seeded()).numel() == 0
    assert len(calls) == 1 + 2 + 2 * 3
    assert IDLE > 3
