"""The referee: apply and verify."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from graph_unions import unions
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import attacked, graph_of, pairs, undirected
from torch_geometric.data import Data

from grb_check.attacks.referee import verify
from grb_check.attacks.threat import BY_ENDS, Perturbation, Threat, apply, joined, perturbation_of
from grb_check.errors import BudgetError, count

few = settings(deadline=None, max_examples=60)

# A path 0 - 1 - 2 - 3 and a lone node 4.
GRAPH = graph_of(5, [(0, 1), (1, 2), (2, 3)], x=torch.full((5, 2), 0.5))
MODIFICATION = Threat(
    scenario="modification",
    targets=torch.tensor([1, 3]),
    edge_budget=3,
    modified_nodes=2,
    feature_range=(-0.1, 0.9),
)
MODIFIED = Perturbation(
    added_edges=pairs([(0, 3), (1, 4)]),
    removed_edges=pairs([(1, 2)]),
    modified_nodes=torch.tensor([3, 1]),
    modified_x=torch.tensor([[-0.1, 0.9], [0.0, 0.1]]),
)
INJECTION = Threat(
    scenario="injection",
    targets=torch.tensor([1, 3]),
    injected_nodes=2,
    edges_per_injected_node=2,
    feature_range=(-0.1, 0.9),
)
INJECTED = Perturbation(
    injected_x=torch.tensor([[-0.1, 0.9], [0.0, 0.1]]),
    injected_edges=pairs([(0, 1), (0, 6), (1, 3)]),
)

FAULTS = {
    "wrong dtype": ({"added_edges": pairs([(0, 3)]).int()}, "int32"),
    "float64 features": ({"modified_x": torch.zeros(2, 2, dtype=torch.float64)}, "float64"),
    "no tensor": ({"added_edges": [[0], [3]]}, "list"),
    "sparse tensor": ({"modified_x": torch.zeros(2, 2).to_sparse()}, "expected a dense"),
    "wrong dimensions": ({"removed_edges": torch.zeros(2, dtype=torch.int64)}, "dimension"),
    "edges in rows": ({"added_edges": pairs([(0, 3), (1, 4), (2, 4)]).t()}, r"\(3, 2\)"),
    "wrong width": ({"modified_x": torch.zeros(2, 3)}, "3 features a row, the graph has 2"),
    "rows missing": ({"modified_x": torch.zeros(1, 2)}, "1 row for 2 modified_nodes"),
    "too many edges": (
        {"added_edges": pairs([(0, 3), (1, 4), (2, 4)])},
        "4 edges changed, edge_budget is 3",
    ),
    "id too large": ({"added_edges": pairs([(0, 5)])}, "ids from 0 to 5, allowed are 0 to 4"),
    "id negative": ({"removed_edges": pairs([(-1, 2)])}, "ids from -1 to 2"),
    "self-loop": ({"added_edges": pairs([(4, 4)])}, "1 self-loops"),
    "reversed pair": ({"removed_edges": pairs([(2, 1)])}, "first > second"),
    "pair twice": ({"added_edges": pairs([(0, 3), (0, 3)])}, "1 repeated pairs"),
    "edge there already": ({"added_edges": pairs([(0, 1)])}, "edges of the graph already"),
    "edge not there": ({"removed_edges": pairs([(0, 4)])}, "are not edges of the graph"),
    "node injected": ({"injected_x": torch.zeros(1, 2)}, "in a threat of modification, allowed 0"),
    "link injected": ({"injected_edges": pairs([(0, 1)])}, "in a threat of modification"),
    "node twice": ({"modified_nodes": torch.tensor([1, 1])}, "1 repeated nodes"),
    "node no target": ({"modified_nodes": torch.tensor([1, 2])}, "1 node other than targets"),
    "node out of range": ({"modified_nodes": torch.tensor([1, 9])}, "ids from 1 to 9"),
    "too many nodes": (
        {"modified_nodes": torch.tensor([0, 1, 3]), "modified_x": torch.zeros(3, 2)},
        "3 nodes, the limit is 2",
    ),
    "too low": ({"modified_x": torch.full((2, 2), -0.1000001)}, "the limits are"),
    "too high": ({"modified_x": torch.full((2, 2), 0.9000001)}, "the limits are"),
    "NaN": ({"modified_x": torch.tensor([[0.0, math.nan], [0, 0]])}, "infinite in 1 value"),
    "infinite": (
        {"modified_x": torch.tensor([[0.0, -math.inf], [0, 0]])},
        "NaN or infinite in 1 value",
    ),
}

INJECTION_FAULTS = {
    "edge added": ({"added_edges": pairs([(0, 3)])}, "in a threat of injection, allowed 0"),
    "edge removed": ({"removed_edges": pairs([(0, 1)])}, "in a threat of injection, allowed 0"),
    "features modified": (
        {"modified_nodes": torch.tensor([1]), "modified_x": torch.zeros(1, 2)},
        "in a threat of injection",
    ),
    "too many nodes": ({"injected_x": torch.zeros(3, 2)}, "3 nodes injected, the limit is 2"),
    "wrong width": ({"injected_x": torch.zeros(2, 5)}, "5 features a row"),
    "too many links": (
        {"injected_edges": pairs([(0, 1), (0, 2), (0, 3)])},
        "3 edges at injected node 0, the limit is 2",
    ),
    "too many links at the second end": (
        {"injected_edges": pairs([(0, 6), (1, 3), (1, 4)])},
        "3 edges at injected node 1",
    ),
    "link twice": ({"injected_edges": pairs([(0, 1), (0, 1)])}, "1 repeated pairs"),
    "link to itself": ({"injected_edges": pairs([(0, 5)])}, "1 self-loops"),
    "link reversed": ({"injected_edges": pairs([(1, 5)])}, "first > second"),
    "link from an unknown node": ({"injected_edges": pairs([(2, 1)])}, "first row: ids from 2"),
    "link from an existing node": ({"injected_edges": pairs([(-1, 1)])}, "first row: ids from -1"),
    "link to an unknown node": ({"injected_edges": pairs([(0, 7)])}, "allowed are 0 to 6"),
    "below the range": ({"injected_x": torch.full((2, 2), -0.9)}, "the limits are -0.1"),
    "NaN": ({"injected_x": torch.full((2, 2), math.nan)}, "NaN or infinite in 4 values"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_single_fault_in_a_modification_is_caught(fault: str) -> None:
    """Each single change of a valid modification raises with field, figure and limit."""
    changes, message = FAULTS[fault]
    verify(MODIFIED, GRAPH, MODIFICATION)
    with pytest.raises(BudgetError, match=message) as caught:
        verify(replace(MODIFIED, **changes), GRAPH, MODIFICATION)
    assert any(str(caught.value).startswith(name) for name in changes)


@pytest.mark.parametrize("fault", INJECTION_FAULTS)
def test_single_fault_in_an_injection_is_caught(fault: str) -> None:
    """Each single change of a valid injection raises with field, figure and limit."""
    changes, message = INJECTION_FAULTS[fault]
    verify(INJECTED, GRAPH, INJECTION)
    with pytest.raises(BudgetError, match=message) as caught:
        verify(replace(INJECTED, **changes), GRAPH, INJECTION)
    assert any(str(caught.value).startswith(name) for name in changes)


@given(attacked())
@few
def test_perturbation_within_the_threat_passes(case) -> None:
    """Every perturbation within all limits is accepted."""
    graph, threat, perturbation = case
    verify(perturbation, graph, threat)


@given(attacked("modification"))
@few
def test_exact_edge_count_is_the_limit(case) -> None:
    """A budget of the edges used is enough, one less is not."""
    graph, threat, perturbation = case
    used = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    assume(used)
    verify(perturbation, graph, replace(threat, edge_budget=used))
    with pytest.raises(BudgetError, match=f"{count(used, 'edge')} changed"):
        verify(perturbation, graph, replace(threat, edge_budget=used - 1))


@given(attacked("injection"))
@few
def test_exact_injected_degree_is_the_limit(case) -> None:
    """The largest degree of an injected node in the attacked graph counts."""
    graph, threat, perturbation = case
    row = apply(graph, perturbation).edge_index[0]
    degrees = torch.bincount(row, minlength=graph.num_nodes)[graph.num_nodes :]
    assume(degrees.sum())
    most = int(degrees.max())
    verify(perturbation, graph, replace(threat, edges_per_injected_node=most))
    with pytest.raises(BudgetError, match=f"{count(most, 'edge')} at injected node"):
        verify(perturbation, graph, replace(threat, edges_per_injected_node=most - 1))


@given(attacked("modification"), st.data())
@few
def test_repeated_or_turned_pair_is_caught_wherever_it_stands(case, data) -> None:
    """No position in the list hides a pair that is listed twice, turned or not."""
    graph, threat, perturbation = case
    name = data.draw(st.sampled_from(["added_edges", "removed_edges"]))
    edges = getattr(perturbation, name)
    assume(edges.shape[1])
    again = edges[:, data.draw(st.integers(0, edges.shape[1] - 1))][:, None]
    again = again.flip(0) if data.draw(st.booleans()) else again
    where = data.draw(st.integers(0, edges.shape[1]))
    edges = torch.cat([edges[:, :where], again, edges[:, where:]], dim=1)
    with pytest.raises(BudgetError, match=name):
        verify(replace(perturbation, **{name: edges}), graph, replace(threat, edge_budget=99))


@given(attacked())
@few
def test_attacked_graph_is_symmetric_and_simple(case) -> None:
    """No self-loop, no edge twice, each edge in both directions, and the sizes add up."""
    graph, _, perturbation = case
    result = apply(graph, perturbation)
    directed = [tuple(edge) for edge in result.edge_index.t().tolist()]
    assert len(set(directed)) == len(directed)
    assert {(b, a) for a, b in directed} == set(directed)
    assert all(a != b for a, b in directed)
    injected = perturbation.injected_x.shape[0]
    assert result.x.shape == (graph.num_nodes + injected, graph.x.shape[1])
    assert result.y.tolist() == graph.y.tolist() + [-1] * injected
    added = perturbation.added_edges.shape[1] + perturbation.injected_edges.shape[1]
    expected = graph.edge_index.shape[1] + 2 * added - 2 * perturbation.removed_edges.shape[1]
    assert result.edge_index.shape[1] == expected


@given(attacked())
@few
def test_clean_graph_is_left_untouched(case) -> None:
    """apply does not write to the graph that it is given."""
    graph, _, perturbation = case
    before = graph.clone()
    apply(graph, perturbation)
    assert torch.equal(before.x, graph.x)
    assert torch.equal(before.edge_index, graph.edge_index)
    assert torch.equal(before.y, graph.y)


@given(attacked("modification"))
@few
def test_undoing_a_modification_gives_the_clean_edges(case) -> None:
    """Removing what was added and adding what was removed is the identity as a set."""
    graph, threat, perturbation = case
    result = apply(graph, perturbation)
    back = Perturbation(
        added_edges=perturbation.removed_edges, removed_edges=perturbation.added_edges
    )
    verify(back, result, threat)
    assert undirected(graph) == undirected(apply(result, back))


def test_injected_edges_stand_in_both_directions() -> None:
    """Links of injected nodes follow the original edges."""
    result = apply(GRAPH, INJECTED)
    expected = [(5, 1), (5, 6), (6, 3), (1, 5), (6, 5), (3, 6)]
    assert expected == [tuple(edge) for edge in result.edge_index.t().tolist()[6:]]
    assert torch.equal(INJECTED.injected_x, result.x[5:])


def test_empty_perturbation_changes_nothing() -> None:
    """An empty perturbation is within every threat and gives the clean graph."""
    for threat in (MODIFICATION, INJECTION):
        verify(Perturbation(), GRAPH, threat)
    result = apply(GRAPH, Perturbation())
    assert torch.equal(GRAPH.edge_index, result.edge_index)
    assert torch.equal(GRAPH.x, result.x)


# Two graphs side by side: a path 0 - 1 - 2 and an edge 3 - 4.
TWO_GRAPHS = graph_of(5, [(0, 1), (1, 2), (3, 4)])
TO_GRAPHS = Threat(
    scenario="modification",
    targets=torch.tensor([0, 1]),
    edge_budget=3,
    batch=torch.tensor([0, 0, 0, 1, 1]),
    edge_budgets=torch.tensor([2, 1]),
)


def test_budget_of_one_graph_is_no_other_ones() -> None:
    """Even if the sum of both budgets would allow it."""
    over = Perturbation(added_edges=pairs([(0, 2)]), removed_edges=pairs([(0, 1), (1, 2)]))
    with pytest.raises(BudgetError, match=r"its budget is 2 \(over the budget: 1 graph"):
        verify(over, TWO_GRAPHS, TO_GRAPHS)


def test_pairs_between_graphs_are_refused() -> None:
    across = Perturbation(added_edges=pairs([(2, 3), (0, 2)]))
    with pytest.raises(BudgetError, match="1 pair between two graphs, allowed 0"):
        verify(across, TWO_GRAPHS, TO_GRAPHS)


@given(unions(), st.data())
@few
def test_flips_of_graphs_are_counted_one_by_one(union, data) -> None:
    """Flips are rejected if and only if one connects graphs or a graph has too many."""
    graph, threat = union
    every = [(a, b) for b in range(graph.num_nodes) for a in range(b)]
    chosen = data.draw(st.lists(st.sampled_from(every), unique=True, max_size=6)) if every else []
    present = undirected(graph)
    perturbation = Perturbation(
        added_edges=pairs([pair for pair in chosen if pair not in present]),
        removed_edges=pairs([pair for pair in chosen if pair in present]),
    )
    owners = [graph.batch[list(pair)].tolist() for pair in chosen]
    inside = all(first == second for first, second in owners)
    counts = [
        [first for first, _ in owners].count(graph_index) for graph_index in range(graph.y.numel())
    ]
    within = all(c <= b for c, b in zip(counts, threat.edge_budgets.tolist(), strict=True))
    if inside and within:
        verify(perturbation, graph, threat)
        after = apply(graph, perturbation)
        assert torch.equal(after.batch, graph.batch)
        row, column = after.edge_index
        assert bool(((row * graph.num_nodes + column).diff() > 0).all())
    else:
        with pytest.raises(BudgetError):
            verify(perturbation, graph, threat)


def test_half_a_threat_to_graphs_is_refused() -> None:
    with pytest.raises(ValueError, match="needs batch and either edge_budgets or"):
        replace(TO_GRAPHS, edge_budgets=None)
    with pytest.raises(ValueError, match="needs batch and either edge_budgets or"):
        replace(TO_GRAPHS, batch=None)


@given(attacked("modification"), st.data())
@few
def test_local_budgets_bound_the_changes_at_each_node(case, data) -> None:
    """Exactly as many changes as there are pass; one less at any node with a change does not."""
    graph, threat, perturbation = case
    flips = torch.cat([perturbation.added_edges, perturbation.removed_edges], dim=1)
    changes = torch.bincount(flips.flatten(), minlength=graph.num_nodes)
    verify(perturbation, graph, replace(threat, local_budgets=changes))
    assume(flips.numel())
    node = data.draw(st.sampled_from(changes.nonzero().flatten().tolist()))
    tighter = changes.clone()
    tighter[node] -= 1
    message = f"changed at node {node}, its local budget is {int(tighter[node])} .*: 1 node"
    with pytest.raises(BudgetError, match=message):
        verify(perturbation, graph, replace(threat, local_budgets=tighter))


# Target 1 gets two flips, target 3 one of the same pairs.
EACH = replace(MODIFICATION, modified_nodes=0, edge_budget=3, target_budgets=torch.tensor([2, 1]))
FOR_EACH = joined(
    [
        Perturbation(added_edges=pairs([(1, 4)]), removed_edges=pairs([(1, 2)])),
        Perturbation(added_edges=pairs([(1, 4)])),
    ]
)


def test_flips_of_targets_attacked_one_by_one() -> None:
    """Two targets may have the same pair; each is taken out as a perturbation of its own."""
    verify(FOR_EACH, GRAPH, EACH)
    assert FOR_EACH.flip_targets.tolist() == [0, 1, 0]
    assert undirected(apply(GRAPH, FOR_EACH.of_target(0))) == {(0, 1), (2, 3), (1, 4)}
    assert undirected(apply(GRAPH, FOR_EACH.of_target(1))) == {(0, 1), (1, 2), (2, 3), (1, 4)}
    with pytest.raises(ValueError, match="see of_target"):
        apply(GRAPH, FOR_EACH)


TARGET_FAULTS = {
    "owner missing": (torch.tensor([0, 1]), EACH, "flip_targets: 2 for 3 changed edges"),
    "no owner": (torch.empty(0, dtype=torch.int64), EACH, "flip_targets: 0 for 3 changed edges"),
    "unknown target": (torch.tensor([0, 2, 0]), EACH, "flip_targets: ids from 0 to 2, allowed are"),
    "over a budget": (
        torch.tensor([1, 0, 1]),
        EACH,
        "2 edges changed for target 1, its budget is 1",
    ),
    "pair twice": (torch.tensor([0, 0, 1]), EACH, "added_edges: 1 repeated pairs"),
    "all together": (
        torch.tensor([0, 1, 0]),
        replace(EACH, target_budgets=None),
        "flip_targets: 3 in a threat to all targets together",
    ),
    "wrong dtype": (torch.tensor([0.0, 1, 0]), EACH, "flip_targets: dtype torch.float32"),
}


@pytest.mark.parametrize("fault", TARGET_FAULTS)
def test_single_fault_in_the_targets_of_flips_is_caught(fault: str) -> None:
    """Each raises with field, figure and limit."""
    owners, threat, message = TARGET_FAULTS[fault]
    with pytest.raises(BudgetError, match=message):
        verify(replace(FOR_EACH, flip_targets=owners), GRAPH, threat)


TYPED = replace(MODIFICATION, edge_types=2)
TYPE_FAULTS = {
    "not chosen": ([0, 1], MODIFICATION, "added_types: 2 where no types are chosen, allowed 0"),
    "of removed edges too": ([0, 1, 1], TYPED, "added_types: 3 for 2 new edges"),
    "unknown": ([0, 2], TYPED, "added_types: from 0 to 2, allowed are -1 to 1"),
    "negative": ([-2, 0], TYPED, "added_types: from -2 to 0"),
    "wrong dtype": ([0.0, 1.0], TYPED, "added_types: dtype torch.float32"),
}


@pytest.mark.parametrize("fault", TYPE_FAULTS)
def test_single_fault_in_the_types_of_new_edges_is_caught(fault: str) -> None:
    types, threat, message = TYPE_FAULTS[fault]
    with pytest.raises(BudgetError, match=message):
        verify(replace(MODIFIED, added_types=torch.tensor(types)), GRAPH, threat)


def test_the_attacked_graph_has_the_types_of_new_edges() -> None:
    """In both directions, at the places of the edges."""

    def edges_of(graph: Data, kind: int) -> set[tuple[int, ...]]:
        return {*map(tuple, graph.edge_index[:, graph.new_types == kind].T.tolist())}

    flipped = replace(MODIFIED, added_types=torch.tensor([1, BY_ENDS]))
    verify(flipped, GRAPH, TYPED)
    graph = apply(GRAPH, flipped)
    assert edges_of(graph, 1) == {(0, 3), (3, 0)}
    assert set(graph.new_types.tolist()) == {1, BY_ENDS}
    linked = apply(GRAPH, replace(INJECTED, added_types=torch.tensor([0, 1, 0])))
    assert edges_of(linked, 1) == {(5, 6), (6, 5)}
    assert edges_of(linked, 0) == {(5, 1), (1, 5), (6, 3), (3, 6)}
    assert "new_types" not in apply(GRAPH, MODIFIED)


def test_tensors_of_a_perturbation_as_they_are_written() -> None:
    """Without an empty `flip_targets`; read back as they were."""
    assert "flip_targets" not in MODIFIED.named_tensors()
    typed = replace(MODIFIED, added_types=torch.tensor([1, 0]))
    for perturbation in (MODIFIED, INJECTED, FOR_EACH, typed):
        arrays = {name: tensor.numpy() for name, tensor in perturbation.named_tensors().items()}
        read = perturbation_of(arrays, ("a note",))
        assert read.notes == ("a note",)
        assert all(map(torch.equal, perturbation.tensors(), read.tensors()))
