"""Random removals and additions at targets, and the attacks RND and DICE."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, threats, undirected

from grb_check.attacks.modification.dice import ModificationDice
from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.threat import Perturbation, Threat, verify

few = settings(deadline=None, max_examples=60)


def run(attack, graph, targets, budget: int, seed: int = 0) -> Perturbation:
    threat = Threat(scenario="modification", targets=torch.as_tensor(targets), edge_budget=budget)
    generator = torch.Generator().manual_seed(seed)
    perturbation = attack.perturb(graph, threat, LinearModel(1, 1), generator)
    verify(perturbation, graph, threat)
    return perturbation


def listed(edges: torch.Tensor) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in edges.t().tolist()]


def candidates(graph, targets, classes: bool) -> tuple[set, set]:
    """Return the edges to remove and the pairs to add, by enumerating all pairs."""
    near = set(targets.tolist())
    label = graph.y.tolist()
    present = undirected(graph)
    pairs = {p for p in combinations(range(graph.num_nodes), 2) if near & set(p)}
    same = {p for p in pairs if label[p[0]] == label[p[1]]}
    removable = pairs & present & same if classes else pairs & present
    return removable, pairs - present - same if classes else pairs - present


@pytest.mark.parametrize("attack", [ModificationRnd, ModificationDice])
@given(st.data(), st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
@few
def test_as_many_candidates_are_used_as_brute_force_finds(attack, data, seed, share) -> None:
    """For any graph, counts and members agree with an enumeration of all pairs."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "modification"))
    chosen = attack(removal_share=share)
    found = run(chosen, graph, threat.targets, threat.edge_budget, seed)
    removable, addable = candidates(graph, threat.targets, attack is ModificationDice)
    removed, added = set(listed(found.removed_edges)), set(listed(found.added_edges))
    assert removed <= removable
    assert added <= addable
    assert min(threat.edge_budget, len(removable) + len(addable)) == len(removed) + len(added)
    wanted = min(int(share * threat.edge_budget), len(removable))
    assert len(removed) >= wanted
    if len(addable) >= threat.edge_budget - wanted:
        assert wanted == len(removed)


# 0, 1 and 2 are targets; the pairs 0-1 and 3-4 are edges, so 8 pairs may be added.
SMALL = graph_of(5, [(0, 1), (3, 4)])
# Two targets among 40 nodes: 77 pairs and two edges, sampled by rejection for a budget of 3.
LARGER = graph_of(40, [(0, 1), (1, 5), (7, 8)])


COMPLETE = graph_of(6, list(combinations(range(6), 2)))


@pytest.mark.parametrize(
    ("kind", "graph", "targets", "candidates"),
    [
        ("added_edges", SMALL, [0, 1, 2], 8),
        ("added_edges", LARGER, [0, 1], 75),
        ("removed_edges", COMPLETE, [0, 1], 9),
    ],
)
def test_every_candidate_is_equally_likely(kind, graph, targets, candidates) -> None:
    """Chi-square over 600 draws of one edge: additions by enumeration, by rejection; removals.

    The limit is mean + 4.5 standard deviations of a chi-square: fails for at most 1 seed in 800.
    """
    rounds = 600
    attack = ModificationRnd(removal_share=float(kind == "removed_edges"))
    seen = Counter(
        listed(getattr(run(attack, graph, targets, 1, seed), kind))[0] for seed in range(rounds)
    )
    assert len(seen) == candidates
    expected = rounds / candidates
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    freedom = candidates - 1
    assert statistic < freedom + 4.5 * (2 * freedom) ** 0.5


def test_half_of_the_budget_is_removed() -> None:
    """Rounded down: 5 changes are 2 removals and 3 additions."""
    ring = graph_of(30, [(i, i + 1) for i in range(29)])
    found = run(ModificationRnd(), ring, range(30), 5)
    assert (found.removed_edges.shape[1], found.added_edges.shape[1]) == (2, 3)
    assert found.notes == ()


def test_dice_removes_inside_and_adds_across_classes() -> None:
    """Ends of removed edges have equal labels, of added ones different; a quarter are removals."""
    ring = graph_of(30, [(i, i + 1) for i in range(29)], y=torch.arange(30) // 5)
    found = run(ModificationDice(), ring, range(30), 12)
    assert torch.equal(*ring.y[found.removed_edges])
    assert (ring.y[found.added_edges[0]] != ring.y[found.added_edges[1]]).all()
    assert (found.removed_edges.shape[1], found.added_edges.shape[1]) == (3, 9)


def test_what_one_kind_cannot_use_goes_to_the_other() -> None:
    """Without edges all flips are additions, in a complete graph all are removals."""
    empty = run(ModificationRnd(), graph_of(10, []), [0, 1], 4)
    assert (empty.removed_edges.shape[1], empty.added_edges.shape[1]) == (0, 4)
    full = run(ModificationRnd(), COMPLETE, [0, 1], 4)
    assert (full.removed_edges.shape[1], full.added_edges.shape[1]) == (4, 0)
    assert () == empty.notes == full.notes


def test_shortfall_is_noted_with_its_figures() -> None:
    """With one class and one edge, DICE can remove one edge and add none."""
    graph = graph_of(4, [(0, 1)], y=torch.zeros(4, dtype=torch.int64))
    found = run(ModificationDice(), graph, [0], 5)
    assert found.notes == ("1 of 5 edge changes used: edges to remove: 1, to add: 0",)


def test_large_sparse_graph_needs_little_memory() -> None:
    """300,000 nodes, half of them targets, are sampled without listing all pairs."""
    num_nodes = 300_000
    path = torch.arange(num_nodes - 1)
    row = torch.cat([path, path + 1])
    col = torch.cat([path + 1, path])
    graph = graph_of(1, [])
    graph.x, graph.y = torch.zeros(num_nodes, 1), torch.arange(num_nodes) % 7
    graph.edge_index = torch.stack([row, col])
    found = run(ModificationDice(), graph, torch.arange(0, num_nodes, 2), 10_000)
    # No two neighbours share a class here, so everything is added.
    assert found.added_edges.shape[1] == 10_000
