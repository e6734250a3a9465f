"""Random removals and additions at targets, and the attacks RND and DICE."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, threats, undirected

from grb_check.attacks.modification.dice import ModificationDice
from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat

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
    perturbation = run(chosen, graph, threat.targets, threat.edge_budget, seed)
    removable, addable = candidates(graph, threat.targets, attack is ModificationDice)
    removed, added = set(listed(perturbation.removed_edges)), set(listed(perturbation.added_edges))
    assert removed <= removable
    assert added <= addable
    assert min(threat.edge_budget, len(removable) + len(addable)) == len(removed) + len(added)
    expected = min(int(share * threat.edge_budget), len(removable))
    assert len(removed) >= expected
    if len(addable) >= threat.edge_budget - expected:
        assert expected == len(removed)


def test_dice_removes_inside_and_adds_across_classes() -> None:
    """Ends of removed edges have equal labels, of added ones different; a quarter are removals."""
    ring = graph_of(30, [(i, i + 1) for i in range(29)], y=torch.arange(30) // 5)
    perturbation = run(ModificationDice(), ring, range(30), 12)
    assert torch.equal(*ring.y[perturbation.removed_edges])
    assert (ring.y[perturbation.added_edges[0]] != ring.y[perturbation.added_edges[1]]).all()
    assert (perturbation.removed_edges.shape[1], perturbation.added_edges.shape[1]) == (3, 9)
