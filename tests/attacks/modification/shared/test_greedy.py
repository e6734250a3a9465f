"""Greedy flips in steps, and the exchange of some."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graphs
from torch import Tensor

from grb_check.attacks.modification.shared.best_flips import RankedFlips
from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.modification.shared.flip_sources import Aim, flip_source
from grb_check.attacks.modification.shared.greedy import (
    SearchSpace,
    exchange_flips,
    greedy_flips,
    held_targets,
)
from grb_check.attacks.objectives import cross_entropy

NONE = torch.empty(0, dtype=torch.int64)
few = settings(deadline=None, max_examples=25)


class Fixed:
    """A source whose gains never change; it records the flips made before each call."""

    def __init__(self, gains: Mapping[int, float]) -> None:
        self._gains = gains
        self.made: list[set[int]] = []

    def __call__(
        self, edges: EdgeSet, forbidden: Tensor, count: int, nodes: Tensor | None = None
    ) -> RankedFlips:
        self.made.append(set(forbidden.tolist()))
        left = [code for code in self._gains if code not in self.made[-1]]
        if nodes is not None:
            left = [code for code in left if nodes[[*divmod(code, edges.num_nodes)]].all()]
        best = sorted(left, key=lambda code: -self._gains[code])[:count]
        gains = torch.tensor([self._gains[code] for code in best])
        return RankedFlips(torch.tensor(best, dtype=torch.int64), gains)


def codes_of(edges: EdgeSet) -> list[int]:
    return edges.encode(torch.triu_indices(edges.num_nodes, edges.num_nodes, offset=1)).tolist()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.data(), st.integers(0, 40), st.integers(1, 10))
@few
def test_all_gains_are_taken_and_no_node_twice_in_a_step(data, count, steps) -> None:
    """As many as wanted, or all with a gain; the flips made before stay in front.

    In further steps a node may get 2, 4, 8, ... flips.
    """
    clean = edge_set(data.draw(graphs()))
    every = codes_of(clean)
    gains = {code: data.draw(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])) for code in every}
    before = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    source = Fixed(gains)
    start = torch.tensor(before, dtype=torch.int64)
    flips = greedy_flips(SearchSpace(clean, source, True), start, count, steps).tolist()

    assert flips[: len(before)] == before
    assert len(set(flips)) == len(flips)
    new = [code for code in flips if code not in before]
    gaining = [code for code in every if gains[code] > 0 and code not in before]
    assert len(new) == min(count, len(gaining))
    assert set(new) <= set(gaining)
    for step, (earlier, later) in enumerate(pairwise([*source.made, set(flips)]), start=1):
        ends = clean.ends(torch.tensor(sorted(later - earlier), dtype=torch.int64)).flatten()
        assert ends.bincount(minlength=1).max() <= 2 ** max(0, step - steps)


@given(st.data(), st.integers(0, 40), st.integers(1, 4))
@few
def test_no_node_gets_more_flips_than_it_has_room_for(data, count, steps) -> None:
    """The flips made before count; no other flip with a gain fits if fewer are made than wanted."""
    clean = edge_set(data.draw(graphs()))
    every = codes_of(clean)
    source = Fixed({code: data.draw(st.sampled_from([0.0, 1.0, 2.0])) for code in every})
    before = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    start = torch.tensor(before, dtype=torch.int64)
    spare = st.lists(st.integers(0, 3), min_size=clean.num_nodes, max_size=clean.num_nodes)
    used = clean.ends(start).flatten().bincount(minlength=clean.num_nodes)
    room = used + torch.tensor(data.draw(spare))
    space = SearchSpace(clean, source, True, room)
    flips = greedy_flips(space, start, count, steps)
    left = space.room_beside(flips)
    assert left is not None
    assert (left >= 0).all()
    if flips.numel() < len(before) + count:
        ranked = source(clean, flips, len(every), left > 0)
        assert not (ranked.gains > 0).any()


def test_the_budget_is_spent_evenly() -> None:
    """10 flips in 4 steps are 3, 2, 3 and 2; in 20 steps, ten times 1."""
    clean = EdgeSet(NONE, 40)
    apart = torch.arange(20).reshape(2, 10) * 2
    gains = dict.fromkeys(clean.encode(apart).tolist(), 1.0)
    for steps, expected in ((4, [0, 3, 5, 8]), (20, list(range(10)))):
        source = Fixed(gains)
        assert greedy_flips(SearchSpace(clean, source, True), NONE, 10, steps).numel() == 10
        assert expected == [len(flips) for flips in source.made]


def aim_at(graph, seed: int = 0) -> Aim:
    nodes = torch.arange(graph.num_nodes)
    model = LinearModel(graph.x.shape[1], 3, seed)
    return Aim(model, graph.x, nodes, graph.y, cross_entropy, nodes)


@given(graphs(), st.integers(0, 99), st.integers(1, 12), st.floats(0.05, 1), st.booleans())
@few
def test_exchange_never_makes_it_worse(graph, seed, budget, share, isolate) -> None:
    """Fewer targets are held, or as many with a higher objective; flips are distinct, no more."""
    clean, aim, draws = edge_set(graph), aim_at(graph, seed), generator(seed)
    space = SearchSpace(clean, flip_source(aim, clean, 40, draws), isolate)
    flips = greedy_flips(space, NONE, budget, 3)
    after = exchange_flips(space, aim, flips, 4, share, draws)
    assert held_targets(space, aim, after) <= held_targets(space, aim, flips)
    assert after.numel() == after.unique().numel() <= flips.numel()
    if not isolate:
        assert (clean.flipped(after).degrees() > 0)[clean.degrees() > 0].all()
