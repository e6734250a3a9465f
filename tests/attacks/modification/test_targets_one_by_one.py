"""Attacks on each target by its own flips: Nettack, SGA and L1D-RND."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graph_of, graphs, undirected

from grb_check.attacks.gangs import threat_of_gangs
from grb_check.attacks.modification.l1d_rnd import ModificationL1dRnd
from grb_check.attacks.modification.nettack import LIMIT, DegreeTest, ModificationNettack, _Attacked
from grb_check.attacks.modification.sga import ModificationSga, _ego, _Subgraph
from grb_check.attacks.modification.shared.linear_surrogate import LinearSurrogate, on_edges
from grb_check.attacks.modification.shared.removable import neighbours_in
from grb_check.attacks.names import Gang
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import Attack
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply, changes_used

few = settings(deadline=None, max_examples=60)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def run(attack: Attack, graph, budgets: dict[int, int], seed: int = 0) -> Perturbation:
    given = torch.tensor(list(budgets.values()))
    threat = Threat(
        scenario="modification",
        targets=torch.tensor(list(budgets)),
        edge_budget=int(given.sum()),
        target_budgets=given,
    )
    perturbation = attack.perturb(graph, threat, lambda *_: None, generator(seed))  # type: ignore[arg-type]
    verify(perturbation, graph, threat)
    return perturbation


def surrogate_of(graph, scores: torch.Tensor) -> LinearSurrogate:
    """The surrogate with these scores X W, by dense matrices in float64."""
    matrix = torch.eye(graph.num_nodes, dtype=torch.float64)
    matrix[graph.edge_index[0], graph.edge_index[1]] = 1.0
    degrees = matrix.sum(1)
    scale = degrees.rsqrt()[:, None]
    filtered = scale * matrix * scale.T
    received = matrix @ (scale * scores)
    return LinearSurrogate(torch.eye(3), scores, degrees, received, filtered @ filtered @ scores)


@st.composite
def scored(draw: st.DrawFn):
    """A graph of at least three nodes, scores of three classes, a target and its label."""
    graph = draw(graphs().filter(lambda candidate: candidate.num_nodes > 2))
    seed = draw(st.integers(0, 999))
    scores = torch.randn((graph.num_nodes, 3), generator=generator(seed), dtype=torch.float64)
    return graph, scores, draw(st.integers(0, graph.num_nodes - 1)), draw(st.integers(0, 2))


def flipped(graph, target: int, others: list[int]):
    edges = undirected(graph)
    for other in others:
        edges ^= {(min(target, other), max(target, other))}
    return graph_of(graph.num_nodes, sorted(edges), x=graph.x, y=graph.y)


@given(scored(), st.data())
@few
def test_margins_after_each_flip_are_those_of_the_flipped_graph(case, data) -> None:
    """Nettack's incremental sums agree with a surrogate computed anew, after several flips too."""
    graph, scores, target, label = case
    others = [node for node in range(graph.num_nodes) if node != target]
    drawn_flips = data.draw(st.lists(st.sampled_from(others), unique=True, max_size=4))
    attacked = _Attacked(target, label, surrogate_of(graph, scores), neighbours_in(graph))
    for other in drawn_flips:
        attacked.flip(other)

    def margin(flips: list[int]) -> float:
        logits = surrogate_of(flipped(graph, target, flips), scores).logits[[target]]
        return float(margins_of(logits, torch.tensor([label])))

    assert attacked.margin() == pytest.approx(margin(drawn_flips), abs=1e-9)
    margins = attacked.margins()
    for other in others:
        assert float(margins[other]) == pytest.approx(margin([*drawn_flips, other]), abs=1e-9)


@given(scored())
@few
def test_gains_in_the_subgraph_are_those_of_the_whole_graph(case) -> None:
    """SGA's gradient is that of the surrogate on all nodes, by differences."""
    graph, scores, target, label = case
    near = neighbours_in(graph)
    open_nodes = torch.ones(graph.num_nodes, dtype=torch.bool)
    open_nodes[near.of(target)] = open_nodes[target] = False
    candidates = open_nodes.nonzero().squeeze(1)[:2]
    surrogate = surrogate_of(graph, scores)
    part = _Subgraph(target, _ego(target, near), candidates, surrogate, near)
    pairs = part._nodes[part._pairs]
    gains = part.gains(lambda logits: -logits[label])
    step = 1e-6
    for index, (first, second) in enumerate(pairs.T.tolist()):
        matrix = torch.eye(graph.num_nodes, dtype=torch.float64)
        matrix[graph.edge_index[0], graph.edge_index[1]] = 1.0
        sign = -1.0 if matrix[first, second] else 1.0
        before = _logit(matrix, scores, target, label)
        matrix[first, second] += sign * step
        matrix[second, first] += sign * step
        expected = -(_logit(matrix, scores, target, label) - before) / step
        assert float(gains[index]) == pytest.approx(expected, abs=1e-4)


def _logit(matrix: torch.Tensor, scores: torch.Tensor, target: int, label: int) -> float:
    scale = matrix.sum(1).rsqrt()[:, None]
    filtered = scale * matrix * scale.T
    return float((filtered @ filtered @ scores)[target, label])


# Two stars of ten, each of one class that a feature tells.
STARS = graph_of(
    20,
    [(0, node) for node in range(1, 10)] + [(10, node) for node in range(11, 20)],
    x=torch.eye(2).repeat_interleave(10, 0),
    y=torch.arange(20) // 10,
)


@pytest.mark.parametrize("attack", [ModificationNettack(degree_test=False), ModificationSga()])
def test_a_target_is_linked_to_the_other_class(attack) -> None:
    """Each on its own graph, within its own budget."""
    perturbation = run(attack, STARS, {3: 2, 14: 1})
    assert perturbation.flip_targets.bincount(minlength=2).tolist() == [2, 1]
    for position, target in enumerate((3, 14)):
        added = perturbation.of_target(position).added_edges
        assert added.shape[1]
        assert (added == target).any(0).all()
        assert ((added[0] < 10) != (added[1] < 10)).all()


@given(scored(), st.data())
@few
def test_a_surrogate_on_other_edges_is_one_computed_anew(case, data) -> None:
    graph, scores, target, _ = case
    others = st.sampled_from([node for node in range(graph.num_nodes) if node != target])
    changed = flipped(graph, target, data.draw(st.lists(others, unique=True, max_size=4)))
    moved, new = on_edges(surrogate_of(graph, scores), changed), surrogate_of(changed, scores)
    for name in ("degrees", "received", "logits"):
        torch.testing.assert_close(getattr(moved, name).double(), getattr(new, name))


def test_members_of_a_gang_are_attacked_on_one_graph() -> None:
    """SGA links each to the other class; an edge between two of them counts at both."""
    whole = Threat(scenario="modification", targets=torch.tensor([3, 4, 14, 15]))
    gang = threat_of_gangs(STARS, whole, Gang(4, 2), "here").parts[0]
    made = ModificationSga().perturb(STARS, gang, lambda *_: None, generator())  # type: ignore[arg-type]
    added = made.added_edges
    assert not made.removed_edges.shape[1]
    assert torch.isin(gang.targets, added).all()
    assert ((added[0] < 10) != (added[1] < 10)).all()
    assert changes_used(gang, made) == 8


def test_members_without_room_take_no_place_among_candidates() -> None:
    """Otherwise 8 of the 12 changes that six members may make are found in this graph."""
    ends = torch.randint(16, (20, 2), generator=generator(43)).tolist()
    pairs = sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]})
    y = torch.tensor([0, 1, 0, 1, 0, 1, *[0] * 10])
    graph = graph_of(16, pairs, x=torch.eye(2)[y], y=y)
    whole = Threat(scenario="modification", targets=torch.arange(6))
    gang = threat_of_gangs(graph, whole, Gang(6, 2), "here").parts[0]
    made = ModificationSga().perturb(graph, gang, lambda *_: None, generator())  # type: ignore[arg-type]
    verify(made, graph, gang)
    assert changes_used(gang, made) >= 10


def test_no_flip_takes_the_last_edge_of_a_node() -> None:
    """A leaf keeps its edge unless that is allowed."""
    for attack in (ModificationNettack(degree_test=False), ModificationSga(), ModificationL1dRnd()):
        perturbation = run(attack, STARS, {5: 19})
        after = apply(STARS, perturbation.of_target(0)).edge_index[0].bincount(minlength=20)
        assert (after > 0).all()
    removed = [
        run(ModificationL1dRnd(isolate=True), STARS, {5: 1}, seed).removed_edges.shape[1]
        for seed in range(20)
    ]
    assert 0 < sum(removed) < 20


@given(graphs(max_nodes=8), st.integers(0, 7))
@few
def test_degree_test_by_likelihoods_of_the_flipped_graph(graph, target) -> None:
    """The statistic of each flip agrees with the formulas on the degrees of the flipped graph."""
    target %= graph.num_nodes
    near = torch.zeros(graph.num_nodes, dtype=torch.bool)
    near[neighbours_in(graph).of(target)] = True
    degrees = graph.edge_index[0].bincount(minlength=graph.num_nodes)
    passes = DegreeTest(graph).passes(degrees.float(), target, near)
    for other in range(graph.num_nodes):
        if other == target:
            continue
        after = flipped(graph, target, [other]).edge_index[0].bincount(minlength=graph.num_nodes)
        both = torch.cat([degrees, after])
        statistic = 2 * (_likelihood(degrees) + _likelihood(after) - _likelihood(both))
        if abs(statistic - LIMIT) > 1e-6:
            assert bool(passes[other]) == (statistic < LIMIT)


def _likelihood(degrees: torch.Tensor) -> float:
    high = degrees[degrees >= 2].double()
    count, total = high.numel(), float(high.log().sum())
    alpha = 1 + count / max(total - count * 0.4054651081081644, 1e-12)
    log_alpha, log_least = torch.tensor([alpha, 2.0], dtype=torch.float64).log().tolist()
    return count * log_alpha + count * alpha * log_least - (alpha + 1) * total


def test_degree_test_refuses_what_changes_a_small_graph_much() -> None:
    """Nettack makes fewer flips with it than without."""
    with_test = run(ModificationNettack(), STARS, {3: 9})
    without = run(ModificationNettack(degree_test=False), STARS, {3: 9})
    assert with_test.flip_targets.numel() < without.flip_targets.numel()
    assert any("no other flip" in note for note in with_test.notes)


def test_an_attack_on_single_targets_needs_their_budgets() -> None:
    """A threat to all targets together is refused."""
    threat = Threat(scenario="modification", targets=torch.tensor([1]), edge_budget=2)
    with pytest.raises(ValueError, match="needs target_budgets"):
        ModificationNettack().perturb(STARS, threat, None, generator())  # type: ignore[arg-type]
    assert replace(threat, target_budgets=torch.tensor([2])).budgets_of_targets().tolist() == [2]
