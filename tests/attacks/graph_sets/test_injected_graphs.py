"""Attacks that inject nodes into the graphs of a set, each within its own budget."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from graph_unions import (
    PooledGat,
    PooledGcn,
    Unweighted,
    injection_to,
    union_of,
    unions,
    victim_on,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.attacks import perturb
from grb_check.attacks.graph_sets.injected_graphs import best_columns
from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.rnd import InjectionRnd
from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.attacks.protocol import Attack, model_on
from grb_check.attacks.query_search import GraphInjections, search
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.evaluation.surrogates import Ensemble
from grb_check.gradients.victim import Victim

SEARCHES = [
    InjectionFgsm(iterations=8),
    InjectionPgd(iterations=8),
    InjectionTdgia(iterations=5),
    InjectionTdgia(iterations=5, rounds=2, dealing="even", reoptimise=False),
    InjectionPgd(iterations=4, harmony=0.5, patience=None, objective="cross_entropy"),
]
ATTACKS = [InjectionRnd(), *SEARCHES]
few = settings(deadline=None, max_examples=12)


def named(attack: Attack) -> str:
    return attack.name + "-variant" * (attack in SEARCHES[3:])


of_all = pytest.mark.parametrize("attack", ATTACKS, ids=named)
of_searches = pytest.mark.parametrize("attack", SEARCHES, ids=named)

# A path, a triangle with a tail, a lone edge, two nodes without one, and a single node.
SIZES = [5, 4, 2, 2, 1]
EDGES = [[(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (0, 2), (1, 2), (2, 3)], [(0, 1)], [], []]


def attacked_by(
    attack: Attack, graph: Data, threat: Threat, victim: Victim, seed: int = 0
) -> Perturbation:
    return perturb(attack, graph, threat, victim, torch.Generator().manual_seed(seed))


def margins(graph: Data, victim: Victim, perturbation: Perturbation | None = None) -> Tensor:
    now = graph if perturbation is None else apply(graph, perturbation)
    logits = model_on(victim, now)(now.x, now.edge_index)
    label_logits = logits.gather(1, graph.y[:, None]).squeeze(1)
    return logits.scatter(1, graph.y[:, None], -torch.inf).amax(1) - label_logits


def of_graph(graph: Data, index: int) -> tuple[list[list[float]], list[tuple[int, int]]]:
    """Features of a graph's nodes, and its edges numbered within it."""
    in_graph = graph.batch == index
    first = int(in_graph.nonzero()[0])
    inside = in_graph[graph.edge_index[0]]
    return graph.x[in_graph].tolist(), sorted(
        map(tuple, (graph.edge_index[:, inside] - first).T.tolist())
    )


@of_all
@given(
    unions(),
    st.sampled_from([PooledGcn, PooledGat, Unweighted]),
    st.integers(0, 4),
    st.booleans(),
    st.data(),
)
@few
def test_each_graph_keeps_to_its_budget(attack, union, module, links_each, one_hot, data) -> None:
    """Counted here graph by graph, and by the referee; existing nodes and edges are kept."""
    graph, _ = union
    count = graph.y.numel()
    budgets = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    targets = data.draw(st.lists(st.sampled_from(range(count)), unique=True))
    threat = injection_to(graph, budgets, targets, links_each=links_each, one_hot=one_hot)
    before = [
        tensor.clone() for tensor in (graph.x, graph.edge_index, graph.y, threat.node_budgets)
    ]
    if attack in SEARCHES and module is Unweighted:
        module = PooledGcn  # a matrix of numpy has no gradient
    perturbation = attacked_by(attack, graph, threat, victim_on(graph, module))
    verify(perturbation, graph, threat)
    for now, then in zip(
        (graph.x, graph.edge_index, graph.y, threat.node_budgets), before, strict=True
    ):
        assert torch.equal(now, then)
    after = apply(graph, perturbation)
    assert bool((after.batch.diff() >= 0).all())
    for index in range(count):
        x, edges = of_graph(graph, index)
        new_x, new_edges = of_graph(after, index)
        injected = len(new_x) - len(x)
        expected = budgets[index] if index in targets and links_each else 0
        assert injected == expected
        assert new_x[: len(x)] == x
        assert [e for e in new_edges if max(e) < len(x)] == edges
        for node in range(len(x), len(new_x)):
            ends = [b for a, b in new_edges if a == node]
            assert len(ends) == len(set(ends)) == min(links_each, len(x))
            assert all(end < len(x) for end in ends)
            row = new_x[node]
            if one_hot:
                assert sorted(row) == [0.0, 0.0, 1.0]
            else:
                assert all(-0.75 <= value <= 1.5 for value in row)
    assert bool(perturbation.notes) == any(
        budgets[index] and links_each > SIZE
        for index in targets
        for SIZE in [int((graph.batch == index).sum())]
    )


@pytest.mark.parametrize("one_hot", [False, True])
@of_searches
def test_found_features_beat_random_ones(attack, one_hot) -> None:
    """On average over graphs, with the margin that the victim itself gives."""
    graph = union_of([8] * 12, [[(a, a + 1) for a in range(7)]] * 12)
    victim = victim_on(graph)
    graph.y = victim(graph.x, graph.edge_index).argmax(1)
    threat = injection_to(graph, [3] * 12, one_hot=one_hot)
    by_chance = margins(graph, victim, attacked_by(ATTACKS[0], graph, threat, victim))
    searched = margins(graph, victim, attacked_by(attack, graph, threat, victim))
    assert searched.mean() > by_chance.mean()


def test_an_ensemble_is_attacked_together() -> None:
    graph = union_of(SIZES, EDGES)
    both = Ensemble((victim_on(graph), victim_on(graph, PooledGat, seed=1)))
    threat = injection_to(graph, [1] * 5)
    perturbation = perturb(SEARCHES[0], graph, threat, both, torch.Generator().manual_seed(0))
    verify(perturbation, graph, threat)
    assert perturbation.injected_x.shape[0] == 5


def test_a_search_by_queries_keeps_the_best_nodes_of_each_graph() -> None:
    """For models without gradients; no graph ends weaker than under any start."""
    graph = union_of(SIZES, EDGES)
    threat, victim = injection_to(graph, [2, 2, 1, 1, 1]), victim_on(graph)
    starts = [attacked_by(InjectionRnd(), graph, threat, victim, seed) for seed in range(4)]
    parts = GraphInjections(
        starts[:2],
        starts[2:],
        graph,
        margins=lambda candidate: margins(graph, victim, candidate),
        generator=torch.Generator().manual_seed(0),
    )
    result = search(parts)
    verify(result, graph, threat)
    best = torch.stack([margins(graph, victim, start) for start in starts[:2]]).amax(0)
    assert (margins(graph, victim, result) >= best - 1e-5).all()


def test_threats_of_both_kinds_at_once_are_refused() -> None:
    graph = union_of([2], [[(0, 1)]])
    with pytest.raises(ValueError, match="either edge_budgets or node_budgets"):
        replace(injection_to(graph, [1]), edge_budgets=torch.tensor([1]))


def test_the_best_column_is_found_by_trying() -> None:
    """The gradient prefers column 1, whose value is the lowest; column 2 is the best."""
    rows = torch.tensor([[1.0, 0.0, 0.0]])

    def values_for(_: Tensor):
        return lambda rows: 3 * rows[:, 1] - 5 * rows[:, 1] ** 2 + rows[:, 2]

    columns = best_columns(values_for, rows, torch.tensor([0]), count=1, highest=math.inf)
    assert columns.tolist() == [[0.0, 0.0, 1.0]]
