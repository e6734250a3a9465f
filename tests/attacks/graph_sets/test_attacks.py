"""The four attacks on sets of graphs, called as attacks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from graph_unions import PooledGat, PooledGcn, Unweighted, threat_to, union_of, unions, victim_on
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets import graph_list
from grb_check.attacks.graph_sets.attacks import perturb
from grb_check.attacks.modification.grbcd import ModificationGrbcd
from grb_check.attacks.modification.pgd_topology import ModificationPgdTopology
from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.modification.random_flips import ModificationRandomFlips
from grb_check.attacks.protocol import Attack
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import GradientError
from grb_check.gradients.victim import Victim

SEARCHES = [
    ModificationPgdTopology(iterations=12, samples=3),
    ModificationPrbcd(iterations=10, samples=3),
    ModificationGrbcd(exchanges=4),
]
ATTACKS = [ModificationRandomFlips(), *SEARCHES]
of_all = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
of_searches = pytest.mark.parametrize("attack", SEARCHES, ids=lambda attack: attack.name)
few = settings(deadline=None, max_examples=6)

# A path, a triangle with a tail, a lone edge, two nodes without one, and a single node.
SIZES = [5, 4, 2, 2, 1]
EDGES = [[(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (0, 2), (1, 2), (2, 3)], [(0, 1)], [], []]
MODULES = [PooledGcn, PooledGat]


def attacked_by(
    attack: Attack, graph: Data, threat: Threat, victim: Victim, seed: int = 0
) -> Perturbation:
    perturbation = perturb(attack, graph, threat, victim, torch.Generator().manual_seed(seed))
    verify(perturbation, graph, threat)
    return perturbation


def margins(graph: Data, victim: Victim, perturbation: Perturbation | None = None) -> Tensor:
    """Return each graph's margin of the best other class over the label."""
    graph_now = graph if perturbation is None else apply(graph, perturbation)
    logits = victim(graph_now.x, graph_now.edge_index)
    label_logits = logits.gather(1, graph.y[:, None]).squeeze(1)
    return logits.scatter(1, graph.y[:, None], -torch.inf).amax(1) - label_logits


def flips_of_graphs(graph: Data, perturbation: Perturbation) -> Tensor:
    """Return the number of flips in each graph."""
    every = torch.cat([perturbation.added_edges, perturbation.removed_edges], dim=1)
    return torch.bincount(graph.batch[every[0]], minlength=graph.y.numel())


@of_all
@given(unions(), st.sampled_from(MODULES), st.booleans())
@few
def test_each_graph_keeps_to_its_budget(attack, union, module, isolate) -> None:
    """The referee accepts the flips; graphs that are not targets, and inputs, stay unchanged.

    No node is isolated if that is not allowed. A search leaves a graph unchanged rather than
    lower its margin.
    """
    graph, threat = union
    victim = victim_on(graph, module)
    before = [
        tensor.clone() for tensor in (graph.x, graph.edge_index, graph.y, threat.edge_budgets)
    ]
    perturbation = attacked_by(replace(attack, isolate=isolate), graph, threat, victim)
    if attack in SEARCHES:
        assert (margins(graph, victim, perturbation) >= margins(graph, victim) - 1e-5).all()
    untouched = torch.ones(graph.y.numel(), dtype=torch.bool)
    untouched[threat.targets] = False
    assert not flips_of_graphs(graph, perturbation)[untouched].any()
    for now, then in zip(
        (graph.x, graph.edge_index, graph.y, threat.edge_budgets), before, strict=True
    ):
        assert torch.equal(now, then)
    if not isolate:
        clean, after = (
            torch.bincount(data.edge_index[0], minlength=graph.num_nodes)
            for data in (graph, apply(graph, perturbation))
        )
        assert not ((clean > 0) & (after == 0)).any()


@of_searches
@pytest.mark.parametrize("module", MODULES)
def test_how_many_graphs_share_a_pass_does_not_matter(attack, module, monkeypatch) -> None:
    graph = union_of(SIZES, EDGES)
    threat, victim = threat_to(graph, [3, 2, 1, 1, 0]), victim_on(graph, module)
    together = attacked_by(attack, graph, threat, victim)
    monkeypatch.setattr(graph_list, "TOGETHER", 1)
    alone = attacked_by(attack, graph, threat, victim)
    for one, other in zip(together.tensors(), alone.tensors(), strict=True):
        assert torch.equal(one, other)


@of_searches
@given(st.integers(0, 2**16))
@settings(deadline=None, max_examples=3)
def test_a_single_flip_is_the_strongest_there_is(attack, seed) -> None:
    """A small graph has no more pairs than are tried."""
    graph = union_of([5, 6], [EDGES[0], [(0, 1), (1, 2), (0, 2), (3, 4)]], seed=seed)
    victim = victim_on(graph)
    clean = margins(graph, victim)
    reached = margins(graph, victim, attacked_by(attack, graph, threat_to(graph, [1, 1]), victim))
    for index, (start, size) in enumerate(((0, 5), (5, 6))):
        best = max(
            float(margins(graph, victim, _one_flip(graph, first + start, second + start))[index])
            for first, second in combinations(range(size), 2)
        )
        if clean[index] >= 0:
            assert reached[index] >= clean[index] - 1e-5
        elif best > 0:
            assert reached[index] > 0
        else:
            assert float(reached[index]) == pytest.approx(best, abs=1e-5)


def _one_flip(graph: Data, first: int, second: int) -> Perturbation:
    pair = torch.tensor([[first], [second]])
    present = (graph.edge_index == pair).all(0).any()
    return Perturbation(removed_edges=pair) if present else Perturbation(added_edges=pair)


@of_searches
def test_searches_are_stronger_than_chance(attack) -> None:
    generator = torch.Generator().manual_seed(1)
    edges = [_random_edges(12, generator) for _ in range(20)]
    graph = union_of([12] * 20, edges)
    victim = victim_on(graph)
    graph.y = victim(graph.x, graph.edge_index).argmax(1)
    threat = threat_to(graph, [3] * 20)
    by_chance = margins(graph, victim, attacked_by(ATTACKS[0], graph, threat, victim))
    searched = margins(graph, victim, attacked_by(attack, graph, threat, victim))
    assert (searched > by_chance).sum() >= 19
    assert (searched > 0).sum() > (by_chance > 0).sum()


def _random_edges(size: int, generator: torch.Generator) -> list[tuple[int, int]]:
    taken = torch.rand((size, size), generator=generator) < 0.25
    return [(a, b) for a, b in combinations(range(size), 2) if taken[a, b]]


@of_searches
def test_a_model_without_gradients_is_refused(attack) -> None:
    graph = union_of(SIZES, EDGES)
    with pytest.raises(GradientError, match="no gradient for edges"):
        attacked_by(attack, graph, threat_to(graph, [1] * 5), victim_on(graph, Unweighted))


class _Mine(ModificationPrbcd):
    """A user's attack with a search of its own."""

    def perturb(self, graph, threat, model, generator) -> Perturbation:
        return Perturbation(notes=("mine",))


class _Tuned(ModificationPrbcd):
    """A user's attack that keeps the search."""


def test_the_search_belongs_to_the_class_that_perturbs() -> None:
    """Names of attacks are users' to give."""
    graph = union_of(SIZES, EDGES)
    threat, victim = threat_to(graph, [3, 2, 1, 1, 0]), victim_on(graph)
    assert attacked_by(_Mine(), graph, threat, victim).notes == ("mine",)
    same = attacked_by(ModificationPrbcd(), graph, threat, victim).tensors()
    for one, other in zip(
        attacked_by(_Tuned(), graph, threat, victim).tensors(), same, strict=True
    ):
        assert torch.equal(one, other)
