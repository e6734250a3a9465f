"""Block flips: projection, steps and rounding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs
from torch import Tensor

from grb_check.attacks.modification.shared.best_flips import RankedFlips
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.flip_sources import Aim, flip_source
from grb_check.attacks.modification.shared.greedy import SearchSpace, held_targets
from grb_check.attacks.modification.shared.relaxation import (
    Block,
    ascend,
    gains_of,
    project_at_nodes,
    rounded,
)
from grb_check.attacks.objectives import cross_entropy

UNBOUND = SearchSpace(edge_set(graph_of(3, [])), lambda *_: None, True)


@given(st.data(), st.integers(2, 6))
@settings(deadline=None, max_examples=60)
def test_weights_at_each_node_keep_its_room(data, nodes) -> None:
    """Bounds hold, nothing is raised, and weights that keep them are only clipped."""
    ends = torch.triu_indices(nodes, nodes, offset=1)
    weights = torch.tensor(
        data.draw(st.lists(st.floats(-2, 3), min_size=ends.shape[1], max_size=ends.shape[1])),
        dtype=torch.float64,
    )
    room = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes)))
    projected = project_at_nodes(weights, ends, room)
    sums = torch.zeros(nodes, dtype=torch.float64).index_add(0, ends.flatten(), projected.repeat(2))
    assert (sums <= room + 1e-6).all()
    assert ((projected >= 0) & (projected <= weights.clamp(0, 1) + 1e-12)).all()
    assert torch.equal(project_at_nodes(projected, ends, torch.full((nodes,), nodes)), projected)


def test_weights_at_a_node_by_hand() -> None:
    """0.9 + 0.7 at node 0 with room for 1 is lowered by 0.3 each; the pair elsewhere stays."""
    ends = torch.tensor([[0, 0, 3], [1, 2, 4]])
    projected = project_at_nodes(torch.tensor([0.9, 0.7, 0.8]), ends, torch.tensor([1, 5, 5, 5, 5]))
    torch.testing.assert_close(projected, torch.tensor([0.6, 0.4, 0.8]))


def test_step_by_hand() -> None:
    """The mean of the two largest gains is 3; at step 80 the step has a third of its size."""
    start = Block(torch.arange(3), torch.tensor([0.0, 0.1, 0.5]))
    gains = torch.tensor([4.0, 2.0, -1.0])
    stepped = ascend(start, gains, UNBOUND, 2, 0.3, 0).weights
    torch.testing.assert_close(stepped, torch.tensor([0.4, 0.3, 0.4]))
    stepped = ascend(start, gains, UNBOUND, 2, 0.9, 80).weights
    torch.testing.assert_close(stepped, torch.tensor([0.4, 0.3, 0.4]))
    still = ascend(start, torch.zeros(3), UNBOUND, 2, 0.3, 0).weights
    assert torch.equal(start.weights, still)


def aim_at(graph, *, seed: int = 0) -> Aim:
    nodes = torch.arange(graph.num_nodes)
    model = LinearModel(graph.x.shape[1], 3, seed)
    return Aim(model, graph.x, nodes, graph.y, cross_entropy, nodes)


@st.composite
def relaxed_flips(draw: st.DrawFn):
    """A graph of at least two nodes, and weights of some of its pairs."""
    graph = draw(graphs().filter(lambda candidate: candidate.num_nodes > 1))
    clean, num_nodes = edge_set(graph), graph.num_nodes
    every = clean.encode(torch.triu_indices(num_nodes, num_nodes, offset=1)).tolist()
    codes = draw(st.lists(st.sampled_from(every), unique=True))
    weight = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1, width=32))
    weights = draw(st.lists(weight, min_size=len(codes), max_size=len(codes)))
    return graph, Block(torch.tensor(codes, dtype=torch.int64), torch.tensor(weights))


@given(relaxed_flips(), st.integers(1, 12), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_rounding_is_allowed_and_no_weaker_than_the_largest(drawn, budget, isolate, seed) -> None:
    """Flips are distinct and within the budget; no node loses its last edge if not allowed."""
    graph, block = drawn
    clean, aim = edge_set(graph), aim_at(graph)
    generator = torch.Generator().manual_seed(seed)
    space = SearchSpace(clean, flip_source(aim, clean, 50, generator), isolate)
    flips = rounded(block, space, aim, budget, 3, generator)
    assert flips.numel() == flips.unique().numel() <= budget
    if isolate:
        assert held_targets(space, aim, flips) <= held_targets(space, aim, block.largest(budget))
    else:
        assert (clean.flipped(flips).degrees() > 0)[clean.degrees() > 0].all()


def test_a_flip_that_hardly_any_weight_shows_is_found_with_a_small_budget() -> None:
    """What the greedy choice fells without weights is never missed for a flip of large weight."""
    graph = graph_of(5, [], x=torch.zeros(5, 1), y=torch.zeros(5, dtype=torch.int64))
    clean = edge_set(graph)
    heavy, felling = clean.encode(torch.tensor([[0, 0], [1, 2]])).split(1)

    def model(x: Tensor, edge_index: Tensor) -> Tensor:
        near = edge_index[1][edge_index[0] == 0]
        return torch.eye(2)[(near == 2).any().long()].expand(5, -1)

    aim = Aim(model, graph.x, torch.tensor([0]), graph.y[:1], cross_entropy, torch.arange(5))
    space = SearchSpace(clean, lambda *_: RankedFlips(felling, torch.ones(1)), isolate=True)
    block, generator = Block(heavy, torch.tensor([0.9])), torch.Generator().manual_seed(0)
    assert torch.equal(rounded(block, space, aim, 1, 3, generator), felling)


def test_gains_are_those_of_the_weights() -> None:
    """Gains are the slope of the objective in each weight, with the sign of the flip."""
    x = torch.randn((5, 3), generator=torch.Generator().manual_seed(0))
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4)], x=x)
    clean, aim = edge_set(graph), aim_at(graph)
    codes = clean.encode(torch.tensor([[0, 0, 2], [1, 4, 3]]))
    weights = torch.tensor([0.3, 0.6, 0.0])
    block = Block(codes, weights)
    gains = gains_of(block, clean, aim)(weights)

    logits_of = aim.model.with_pairs(x, graph.edge_index, clean.ends(codes), aim.targets)
    assert logits_of is not None
    for index in range(3):
        moved = weights.clone()
        moved[index] += 1e-2
        ends = [
            float(aim.value(logits_of(torch.stack([1 - vector[0], vector[1], 1 - vector[2]]))))
            for vector in (weights, moved)
        ]
        assert gains[index] == pytest.approx((ends[1] - ends[0]) / 1e-2, abs=5e-3)
    assert not weights.requires_grad
