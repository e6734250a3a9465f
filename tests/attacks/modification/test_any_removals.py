"""Every set of up to so many removed edges, against the model called on every such graph."""

from __future__ import annotations

from itertools import chain, combinations, repeat

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data
from two_layers import LAYERS, Two, graph_of, victim

from grb_check.attacks.modification.any_removals import ModificationAnyRemovals
from grb_check.attacks.modification.shared import flip_set_search, removal_sets
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Threat, apply
from grb_check.errors import UsageError
from grb_check.gradients import exact_trials
from grb_check.gradients.victim import Victim


def threat(targets: Tensor, flips: int = 3) -> Threat:
    budgets = torch.full_like(targets, flips)
    return Threat(
        scenario="modification",
        targets=targets,
        edge_budget=int(budgets.sum()),
        target_budgets=budgets,
    )


def smallest_by_force(model: Victim, graph: Data, most: int) -> list[int]:
    """For each node that is right the fewest removals under which it is wrong; 0 for none."""
    edges = edge_set(graph)
    result = torch.zeros(graph.num_nodes, dtype=torch.int64)
    for size in range(1, most + 1):
        for some in combinations(edges.codes.tolist(), size):
            left = edges.flipped(torch.tensor(some)).edge_index()
            lost = model(graph.x, left).argmax(1) != graph.y
            result[lost & (result == 0)] = size
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    return result.where(right, 0).tolist()


@pytest.mark.parametrize("most_whole", [0, 60])
@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "gat", "max"])
@settings(max_examples=8)
@given(graph=graphs(max_nodes=6), seed=st.integers(0, 2**16), edges=st.integers(1, 3))
def test_every_verdict_is_that_of_calling_the_model_for_each_set(
    name: str, most_whole: int, graph: Data, seed: int, edges: int
) -> None:
    """On the rows that flips reach, as on large graphs, and by calling the model."""
    torch.manual_seed(seed)
    model = victim(Two(LAYERS[name]))
    graph = graph_of(graph.edge_index, graph.num_nodes, seed)
    targets = torch.arange(graph.num_nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_trials, "MOST_WHOLE", most_whole)
        found = ModificationAnyRemovals(edges=edges).verdicts(graph, threat(targets), model)
    verify(found.perturbation, graph, threat(targets))
    assert not found.perturbation.added_edges.numel()
    sizes = torch.zeros_like(targets)
    sizes[found.fallen] = found.sizes
    expected = torch.tensor(smallest_by_force(model, graph, edges))
    on_the_boundary = set(found.undecided.tolist())  # all classes alike, where a layer sends zeros
    differing = (sizes != expected).nonzero().squeeze(1)
    assert set(differing.tolist()) <= on_the_boundary
    for node in found.fallen.tolist():
        attacked = apply(graph, found.perturbation.of_target(node))
        assert model(attacked.x, attacked.edge_index)[node].argmax() != graph.y[node]


def test_ties_are_rare() -> None:
    """Else "undecided" could be said of anything."""
    torch.manual_seed(0)
    pairs = torch.tensor(list(combinations(range(6), 2))).T
    graph = graph_of(torch.cat([pairs, pairs.flip(0)], dim=1), 6, 0)
    found = ModificationAnyRemovals(edges=3).verdicts(
        graph, threat(torch.arange(6)), victim(Two(LAYERS["gat"]))
    )
    assert not found.undecided.numel()
    assert found.tried


@pytest.mark.slow
def test_targets_of_a_larger_graph_are_asked_each_for_its_own_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ring: all its nodes are near some target, few are near each."""
    ring = torch.stack([torch.arange(70), (torch.arange(70) + 1) % 70])
    graph = graph_of(torch.cat([ring, ring.flip(0)], dim=1), 70, 0)
    torch.manual_seed(0)
    model, targets = victim(Two(LAYERS["gcn"])), torch.arange(70)
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    monkeypatch.setattr(removal_sets, "MOST_SETS", 100)
    found = ModificationAnyRemovals(edges=2).verdicts(graph, threat(targets), model)
    assert found.undecided.numel() < 10  # by rounding; all 70 if the ring's pairs were counted
    assert 2 in found.sizes


def test_no_target_loses_more_edges_than_its_budget() -> None:
    torch.manual_seed(0)
    pairs = torch.tensor(list(combinations(range(6), 2))).T
    graph = graph_of(torch.cat([pairs, pairs.flip(0)], dim=1), 6, 0)
    model, targets = victim(Two(LAYERS["sage"])), torch.arange(6)
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    wide, narrow = (
        ModificationAnyRemovals(edges=3).verdicts(graph, threat(targets, flips), model)
        for flips in (3, 1)
    )
    assert set(narrow.sizes.tolist()) <= {1}
    assert narrow.fallen.tolist() == wide.fallen[wide.sizes == 1].tolist()
    assert wide.fallen.numel() > narrow.fallen.numel()


def test_more_sets_than_are_tried_leave_a_target_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What single removals decide stays decided."""
    torch.manual_seed(0)
    pairs = torch.tensor(list(combinations(range(6), 2))).T
    graph = graph_of(torch.cat([pairs, pairs.flip(0)], dim=1), 6, 0)
    model = victim(Two(LAYERS["gcn"]))
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    targets = torch.arange(6)
    monkeypatch.setattr(removal_sets, "MOST_SETS", 15)
    cut = ModificationAnyRemovals(edges=2).verdicts(graph, threat(targets), model)
    one = ModificationAnyRemovals(edges=1).verdicts(graph, threat(targets), model)
    assert cut.fallen.tolist() == one.fallen.tolist()
    assert sorted([*cut.fallen.tolist(), *cut.undecided.tolist()]) == targets.tolist()
    assert cut.notes == (
        f"{cut.undecided.numel()} targets with more sets of edges than are tried, undecided",
    )
    assert not one.notes


@pytest.mark.parametrize("edges", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_time_takes_the_place_of_a_number_of_sets(
    edges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sets are tried while there is time. What was tried wholly when it ends is decided."""
    torch.manual_seed(0)
    pairs = torch.tensor(list(combinations(range(5), 2))).T
    graph = graph_of(torch.cat([pairs, pairs.flip(0)], dim=1), 5, 0)
    model, targets = victim(Two(LAYERS["gcn"])), torch.arange(5)
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    whole = ModificationAnyRemovals(edges=edges).verdicts(graph, threat(targets), model)
    monkeypatch.setattr(removal_sets, "MOST_SETS", 10)
    monkeypatch.setattr(removal_sets, "MOST_WHOLE", 1)  # each target is asked on its own
    told: list[float] = []
    timed = ModificationAnyRemovals(edges=edges, seconds=600).verdicts(
        graph, threat(targets), model, told.append
    )
    assert told == sorted(told)
    assert 0.5 < told[-1] < 1.0
    assert timed.fallen.tolist() == whole.fallen.tolist()
    assert timed.sizes.tolist() == whole.sizes.tolist()
    assert timed.undecided.tolist() == whole.undecided.tolist()
    assert not timed.notes
    left = []
    for calls in range(2, 2 + 3 * 5 * (edges - 1) + 1):
        times = chain(repeat(0.0, calls), repeat(1e9))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flip_set_search, "monotonic", lambda times=times: next(times))
            ended = ModificationAnyRemovals(edges=edges, seconds=600)
            cut = ended.verdicts(graph, threat(targets), model)
        assert set(cut.fallen.tolist()) <= set(whole.fallen.tolist())
        proven = set(targets.tolist()) - {*cut.fallen.tolist(), *cut.undecided.tolist()}
        assert proven <= set(targets.tolist()) - set(whole.fallen.tolist())
        left.append(cut.undecided.numel())
    assert left == sorted(left, reverse=True)
    assert len(set(left)) > 2  # one target after another is decided
    assert left[-1] == whole.undecided.numel()


@pytest.mark.parametrize("change", [{"edges": 0}, {"edges": 4}, {"seconds": 0.0}])
def test_wrong_settings_are_usage_errors(change: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(change))):
        ModificationAnyRemovals(**change)  # type: ignore[arg-type]
