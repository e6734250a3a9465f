"""Attacks on edges by gradients, FGA, GR-BCD and PR-BCD, and random flips."""

from __future__ import annotations

import pytest
import torch
from alternating import gcn_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, UnweightedModel, graph_of, graphs, threats, undirected

from grb_check.attacks.modification.fga import ModificationFga
from grb_check.attacks.modification.grbcd import ModificationGrbcd
from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.modification.random_flips import ModificationRandomFlips
from grb_check.attacks.modification.shared import flip_sources
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import GradientError, UsageError
from grb_check.evaluation.surrogates import Ensemble
from grb_check.gradients.victim import Victim

QUICK = (
    ModificationFga(steps=4, block_size=60),
    ModificationGrbcd(steps=4, exchanges=3, exchange_share=0.3, block_size=60),
)
gradient_attacks = pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.name)


def run(attack, graph, threat: Threat, model, seed: int = 0) -> Perturbation:
    generator = torch.Generator().manual_seed(seed)
    perturbation = attack.perturb(graph, threat, model, generator)
    verify(perturbation, graph, threat)
    return perturbation


def threat_to(targets, budget: int) -> Threat:
    targets = torch.as_tensor(targets)
    return Threat(scenario="modification", targets=targets, edge_budget=budget)


def listed(edges) -> set[tuple[int, int]]:
    return {tuple(pair) for pair in edges.T.tolist()}


def communities(num_nodes: int = 60, num_classes: int = 3):
    """Edges within classes only, and features that roughly separate the classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(num_nodes) % num_classes
    x = torch.nn.functional.one_hot(y) + 0.7 * torch.randn(
        (num_nodes, num_classes), generator=generator
    )
    ends = torch.randint(num_nodes, (2, 4 * num_nodes), generator=generator)
    inner = ends[:, (y[ends[0]] == y[ends[1]]) & (ends[0] < ends[1])]
    return graph_of(num_nodes, sorted(listed(inner)), x=x, y=y)


def averaging() -> Victim:
    """One propagation, then the class of the largest mean feature."""
    module = gcn_of(3, ())
    module.layers[0].weight.copy_(torch.eye(3))
    module.layers[0].bias.zero_()
    return victim_of(module)


def held(graph, threat: Threat, model, perturbation: Perturbation) -> int:
    after = apply(graph, perturbation)
    right = model(after.x, after.edge_index).argmax(1) == after.y
    return int(right[threat.targets].sum())


@gradient_attacks
def test_gradient_beats_chance(attack) -> None:
    """With the same budget far more targets are misclassified, for one model and several."""
    graph = communities()
    threat = threat_to(torch.arange(0, 60, 2), 12)
    one, linear = averaging(), LinearModel(3, 3, weight=torch.eye(3))
    chance = run(ModificationRandomFlips(), graph, threat, one)
    left = held(graph, threat, one, chance)
    assert left >= 25
    for model in (one, linear, Ensemble((one, one)), Ensemble((one, linear))):
        assert held(graph, threat, one, run(attack, graph, threat, model)) <= left - 8


def test_all_pairs_are_searched_where_the_model_tells_their_gradients() -> None:
    """The best single flip of all 190 is found, with blocks of one pair."""
    graph = communities(20)
    threat, model = threat_to(torch.arange(20), 1), averaging()
    attack = ModificationGrbcd(steps=1, exchanges=0, block_size=1, objective="margin")
    result = run(attack, graph, threat, model)
    assert result.added_edges.shape[1] + result.removed_edges.shape[1] == 1

    def value(perturbation: Perturbation) -> float:
        after = apply(graph, perturbation)
        logits = model(after.x, after.edge_index)
        best = logits.scatter(1, graph.y[:, None], -torch.inf).amax(1)
        return float((best - logits.gather(1, graph.y[:, None]).squeeze(1)).mean())

    every = torch.triu_indices(20, 20, offset=1).T
    present = undirected(graph)
    values = [
        value(
            Perturbation(removed_edges=pair[:, None])
            if tuple(pair.tolist()) in present
            else Perturbation(added_edges=pair[:, None])
        )
        for pair in every
    ]
    # To first order: among the best three of what all flips really do.
    assert value(result) >= sorted(values, reverse=True)[2]


@pytest.mark.parametrize(
    "attack", [*QUICK, ModificationPrbcd()], ids=lambda listed_attack: listed_attack.name
)
def test_some_nodes_at_a_time_are_enough(attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on large graphs: the attack still beats chance."""
    monkeypatch.setattr(flip_sources, "MOST_RANKED", 40)
    graph = communities()
    threat, model = threat_to(torch.arange(0, 60, 2), 12), averaging()
    chance = run(ModificationRandomFlips(), graph, threat, model)
    left = held(graph, threat, model, run(attack, graph, threat, model))
    assert left <= held(graph, threat, model, chance) - 8


@given(st.data(), st.integers(0, 99), st.booleans())
@settings(deadline=None, max_examples=20)
def test_fga_stays_at_targets_and_deletes_where_told_so(data, seed, deletions) -> None:
    """On odd graphs, with models with and without gradients of all pairs."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "modification"))
    torch.manual_seed(seed)
    width = graph.x.shape[1]
    attack = ModificationFga(steps=3, block_size=30, restrict="deletions" if deletions else "none")
    for model in (victim_of(gcn_of(width, (4,))), LinearModel(width, 3)):
        perturbation = run(attack, graph, threat, model, seed)
        flips = listed(perturbation.added_edges) | listed(perturbation.removed_edges)
        near = set(threat.targets.tolist())
        assert all(near & set(pair) for pair in flips)
        assert not (deletions and perturbation.added_edges.numel())
        assert (len(flips) < threat.edge_budget) == bool(perturbation.notes)
        for note in perturbation.notes:
            assert note.startswith(f"{len(flips)} of {threat.edge_budget} edge changes used: ")


@given(graphs(), st.integers(0, 99), st.integers(1, 12))
@settings(deadline=None, max_examples=20)
def test_no_node_is_isolated_where_that_is_not_allowed(graph, seed, budget) -> None:
    """Random flips, FGA, and GR-BCD after many exchanges."""
    attacks = (
        ModificationRandomFlips(isolate=False),
        ModificationFga(steps=3, block_size=30, isolate=False),
        ModificationFga(steps=3, block_size=30, isolate=False, restrict="deletions"),
        ModificationGrbcd(steps=3, exchanges=4, exchange_share=0.5, block_size=30, isolate=False),
    )
    threat = threat_to(torch.arange(graph.num_nodes), budget)
    before = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    for attack in attacks:
        perturbation = run(attack, graph, threat, LinearModel(graph.x.shape[1], 3, seed), seed)
        edges = apply(graph, perturbation).edge_index
        after = torch.bincount(edges[0], minlength=graph.num_nodes)
        assert (after > 0)[before > 0].all()


@gradient_attacks
def test_no_gradient_is_an_error_that_says_so(attack) -> None:
    """For one model, or one of several; without budget or targets no gradient is needed."""
    graph = communities(12)
    unweighted = UnweightedModel(3, 3)
    mixed = Ensemble((LinearModel(3, 3), unweighted))
    for model in (unweighted, mixed):
        with pytest.raises(GradientError, match="no gradient for edges"):
            run(attack, graph, threat_to([0, 1], 2), model)
        assert not run(attack, graph, threat_to([0, 1], 0), model).notes
        assert run(attack, graph, threat_to(torch.arange(0), 2), model).notes


def test_settings_of_one_attack_are_checked() -> None:
    """FGA's restriction and GR-BCD's exchange."""
    with pytest.raises(UsageError, match="unknown restrict 'removals'"):
        ModificationFga(restrict="removals")
    with pytest.raises(UsageError, match="exchanges is -1; it must be 0 or more"):
        ModificationGrbcd(exchanges=-1)
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match=r"exchange_share is .*above 0 and at most 1"):
            ModificationGrbcd(exchange_share=share)
