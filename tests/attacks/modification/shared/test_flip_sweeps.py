"""Rounds of many flips: no common ends, within bounds, and what counts for each flip."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, UnweightedModel, graph_of, graphs
from torch import Tensor

from grb_check.attacks.modification.shared import flip_sweeps
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.flip_sweeps import Question, Round, sweep
from grb_check.attacks.modification.shared.removable import within_capacity

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
    pairs = torch.randint(nodes, (2, 4), generator=seeded(seed))
    start = question.possible(pairs, NONE)
    start = start[within_capacity(question.clean.ends(start), room)][:budget]
    generator, now = seeded(seed), question.answer(start if isolate else NONE)
    for _ in range(4):
        step = Round(question, now, generator)
        tried = step.flips()
        assert tried.unique().numel() == tried.numel()
        changed = torch.cat([tried, now.flips]).unique(return_counts=True)
        assert int(ends_of(question, changed[0][changed[1] == 1]).max()) <= 1
        flips = step.after(
            question.answer(tried).margins, 0.5, data.draw(st.integers(0, step.spare))
        )
        assert flips.unique().numel() == flips.numel() <= budget
        assert (ends_of(question, flips) <= room).all()
        flipped = question.clean.flipped(flips)
        if not isolate:
            assert (flipped.degrees() > 0)[question.clean.degrees() > 0].all()
        now = question.answer(flips)


@given(graphs().filter(lambda graph: graph.num_nodes > 1), st.integers(0, 2**16))
@settings(deadline=None, max_examples=40)
def test_all_that_a_single_flip_does_counts_for_it(graph, seed):
    """With one layer only its ends and their neighbours change."""
    model = LinearModel(graph.x.shape[1], 3)
    question = question_of(graph, model, 1)
    pairs = torch.tensor(list(combinations(range(graph.num_nodes), 2))).T
    pair = pairs[:, torch.randint(pairs.shape[1], (1,), generator=seeded(seed))]
    now = question.answer(NONE)
    step = Round(question, now, seeded(seed))
    step._new, step._back = question.clean.encode(pair), NONE
    margins = question.answer(step.flips()).margins
    gains = step._gains_at_nodes(margins, 0.5)
    expected = (torch.sigmoid(margins / 0.5) - torch.sigmoid(now.margins / 0.5)).sum()
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
    result = sweep(question, NONE, 60, seeded())

    def lost(flips: Tensor) -> int:
        return 200 - question.answer(flips).right

    assert result.numel() <= 30
    assert lost(result) >= 2 * lost(random) > 0


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


@given(st.integers(0, 2**16))
@settings(deadline=None, max_examples=30)
def test_a_sweep_is_no_weaker_than_its_start_for_votes(seed):
    """Where logits tie, classes count as they do in an evaluation."""
    graph = graph_of(12, [(node, (node + 1) % 12) for node in range(12)], x=torch.randn(12, 3))
    plain = LinearModel(3, 3)
    question = question_of(graph, lambda x, edges: (2 * plain(x, edges)).round(), 3)
    pairs = torch.randint(12, (2, 6), generator=seeded(seed))
    start = question.possible(pairs, NONE)[:3]
    flips = sweep(question, start, 5, seeded(seed))
    assert question.answer(flips).right <= question.answer(start).right


def test_few_targets_have_removals_tried_too() -> None:
    """Two targets of twenty nodes: sometimes an edge, mostly an addition."""
    graph = graph_of(20, [(node, node + 1) for node in range(19)], x=torch.randn(20, 3))
    question = replace(
        question_of(graph, LinearModel(3, 3), 1),
        targets=torch.tensor([3, 9]),
        labels=torch.tensor([0, 0]),
    )
    question = replace(question, labels=question.logits(NONE).argmax(1)[question.targets])
    now, generator = question.answer(NONE), seeded()
    tried = [Round(question, now, generator).flips() for _ in range(200)]
    removals = sum(int(question.clean.has(flips).sum()) for flips in tried)
    assert 0 < removals < sum(map(len, tried)) / 2
