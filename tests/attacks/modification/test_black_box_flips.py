"""Attacks that flip edges without a model: RND, DICE, FLIP, NEA and STACK."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, threats, undirected

from grb_check.attacks.modification.dice import ModificationDice
from grb_check.attacks.modification.flip import ModificationFlip
from grb_check.attacks.modification.nea import ModificationNea
from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.modification.shared.edge_set import adjacency_of
from grb_check.attacks.modification.shared.spectra import leading_spectrum
from grb_check.attacks.modification.stack import ModificationStack
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import UsageError

RESTRICTED = (ModificationRnd, ModificationFlip, ModificationNea, ModificationStack)
ATTACKS = (*RESTRICTED, ModificationDice)
VARIANTS = (
    *(kind() for kind in ATTACKS),
    *(ModificationFlip(centrality=name) for name in ("eigenvector", "betweenness")),
    ModificationFlip(order="descending"),
    ModificationNea(eigenpairs=2, dimensions=1),
)
few = settings(deadline=None, max_examples=40)


def run(attack, graph, threat: Threat, seed: int = 0) -> Perturbation:
    generator = torch.Generator().manual_seed(seed)
    perturbation = attack.perturb(graph, threat, LinearModel(graph.x.shape[1], 3), generator)
    verify(perturbation, graph, threat)
    return perturbation


def listed(edges) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in edges.t().tolist()]


def threat_to(targets, budget: int) -> Threat:
    targets = torch.as_tensor(targets)
    return Threat(scenario="modification", targets=targets, edge_budget=budget)


def all_pairs_at(graph, targets) -> set[tuple[int, int]]:
    near = set(targets.tolist())
    return {pair for pair in combinations(range(graph.num_nodes), 2) if near & set(pair)}


@pytest.mark.parametrize("attack", VARIANTS, ids=repr)
@given(st.data(), st.integers(0, 2**32))
@few
def test_flips_are_at_targets_and_use_the_budget(attack, data, seed) -> None:
    """For odd graphs, targets and budgets; a note has the figures of unused budget."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "modification"))
    perturbation = run(attack, graph, threat, seed)
    flips = set(listed(perturbation.removed_edges)) | set(listed(perturbation.added_edges))
    assert flips <= all_pairs_at(graph, threat.targets)
    used = perturbation.removed_edges.shape[1] + perturbation.added_edges.shape[1]
    assert (used < threat.edge_budget) == bool(perturbation.notes)
    if perturbation.notes:
        assert perturbation.notes[0].startswith(
            f"{used} of {threat.edge_budget} edge changes used: "
        )


def large_graph():
    draw = torch.Generator().manual_seed(0)
    ends = torch.randint(150, (300, 2), generator=draw).tolist()
    edges = {(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]}
    return graph_of(150, sorted(edges), y=torch.arange(150) % 4)


def test_dice_prefers_pairs_of_two_targets() -> None:
    """Both kinds of flips have two target ends while there are such; then one is enough."""
    graph, targets = large_graph(), set(range(60))
    inner = run(ModificationDice(), graph, threat_to(range(60), 4))
    assert all(set(pair) <= targets for pair in listed(inner.removed_edges))
    assert all(set(pair) <= targets for pair in listed(inner.added_edges))
    small = graph_of(4, [], y=torch.arange(4))
    outer = run(ModificationDice(), small, threat_to([0, 1], 3))
    assert (0, 1) in listed(outer.added_edges)
    assert outer.added_edges.shape[1] == 3


@pytest.mark.parametrize(("order", "sign"), [("ascending", 1), ("descending", -1)])
def test_flip_takes_edges_and_pairs_by_degree(order, sign) -> None:
    """The sums of degrees are the lowest, or the highest, of all candidates."""
    graph, threat = large_graph(), threat_to(range(0, 150, 2), 30)
    perturbation = run(ModificationFlip(order=order), graph, threat)
    degree = torch.bincount(graph.edge_index[0], minlength=150)
    pairs, present = all_pairs_at(graph, threat.targets), undirected(graph)
    removable = sorted((sign * int(degree[a] + degree[b]) for a, b in pairs & present))
    addable = sorted(int(degree[a] + degree[b]) for a, b in pairs - present)
    assert removable[:15] == sorted((sign * degree[perturbation.removed_edges].sum(0)).tolist())
    assert addable[:15] == sorted(degree[perturbation.added_edges].sum(0).tolist())


def filter_of(graph, pair=None) -> np.ndarray:
    """Return S with a pair flipped."""
    matrix = adjacency_of(graph).toarray() + np.eye(graph.num_nodes)
    if pair is not None:
        matrix[pair] = matrix[pair[::-1]] = 1.0 - matrix[pair]
    scale = matrix.sum(1) ** -0.5
    return scale[:, None] * matrix * scale


@given(st.data())
@few
def test_stack_takes_the_edge_that_changes_the_spectrum_most(data) -> None:
    """A budget of one, against the eigenvalues after every flip; all pairs are sampled."""
    graph = data.draw(graphs(max_nodes=6))
    targets = torch.arange(graph.num_nodes)
    present = undirected(graph)
    clean = np.linalg.norm(np.linalg.eigvalsh(filter_of(graph)))

    def change(pair) -> float:
        return abs(np.linalg.norm(np.linalg.eigvalsh(filter_of(graph, pair))) - clean)

    for share, kind in ((0.0, "added_edges"), (1.0, "removed_edges")):
        pairs = all_pairs_at(graph, targets)
        pairs = pairs & present if share else pairs - present
        attack = ModificationStack(removal_share=share)
        flips = listed(getattr(run(attack, graph, threat_to(targets, 1)), kind))
        if pairs:
            assert pytest.approx(max(map(change, pairs)), abs=1e-9) == change(flips[0])


def tail(values: np.ndarray, dimensions: int, window: int) -> float:
    """Return the square of NEA's loss from all eigenvalues."""
    sums = sum(values**r for r in range(1, window + 1))
    return float((sums[np.argsort(-values)][dimensions:] ** 2).sum())


def test_nea_ranks_by_the_loss_to_first_order() -> None:
    """With all eigenpairs its scores are the derivatives of the loss and the rest of the energy.

    The graph is connected and its eigenvalues differ, so that the loss has a derivative.
    """
    draw = np.random.default_rng(3)
    path = {(i, i + 1) for i in range(13)}
    more = {tuple(sorted(p)) for p in draw.integers(0, 14, (12, 2)).tolist() if p[0] != p[1]}
    graph = graph_of(14, sorted(path | more))
    adjacency, attack = adjacency_of(graph), ModificationNea(dimensions=3, eigenpairs=20)
    spectrum = leading_spectrum(adjacency, 20)
    assert spectrum.values.size == 13  # all but the trivial one

    def derivative(pair, loss) -> float:
        sides = []
        for step in (-1e-5, 1e-5):
            dense = adjacency.toarray() + np.eye(14)
            dense[pair] += step
            dense[pair[::-1]] += step
            scale = dense.sum(1) ** -0.5
            sides.append(loss(np.linalg.eigvalsh(scale[:, None] * dense * scale)))
        return (sides[1] - sides[0]) / 2e-5

    pairs = sorted(set(combinations(range(14), 2)) - undirected(graph))[:12]
    changes = attack._changes(adjacency, spectrum, np.array(pairs).T, added=True)
    energies = [np.square(np.linalg.eigvalsh(filter_of(graph, pair))).sum() for pair in pairs]
    clean = np.square(np.linalg.eigvalsh(filter_of(graph))).sum()
    for score, pair, energy in zip(changes, pairs, energies, strict=True):
        # Four dimensions of the whole spectrum: the trivial eigenvalue is one of them.
        expected = derivative(pair, lambda values: tail(values, 4, 5))
        expected += energy - clean - derivative(pair, lambda values: (values**2).sum())
        assert pytest.approx(expected, abs=1e-5) == score


@pytest.mark.parametrize(
    ("kind", "setting", "value", "message"),
    [
        (ModificationRnd, "restrict", "additions", "unknown restrict 'additions'"),
        (ModificationFlip, "centrality", "pagerank", "unknown centrality 'pagerank'"),
        (ModificationFlip, "order", "up", "unknown order 'up'"),
        (ModificationFlip, "removal_share", 2.0, "removal_share is 2.0"),
        (ModificationStack, "additions_per_change", 0, "additions_per_change is 0"),
        (ModificationNea, "window", 0, "window is 0; it must be 1 or more"),
        (ModificationNea, "eigenpairs", 0, "eigenpairs is 0"),
        (ModificationNea, "dimensions", -1, "dimensions is -1"),
    ],
)
def test_settings_outside_their_limits_are_refused(kind, setting, value, message) -> None:
    """The setting and the value given are named."""
    with pytest.raises(UsageError, match=message):
        kind(**{setting: value})
