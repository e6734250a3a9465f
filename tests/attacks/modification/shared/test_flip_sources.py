"""Sources of flips: all pairs, random pairs, edges only; and models without gradients."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from alternating import gcn_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, UnweightedModel, graph_of, graphs

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.modification.shared.flip_sources import (
    CHOSEN,
    Aim,
    flip_source,
    has_all_pair_gradients,
    removals_only,
)
from grb_check.attacks.objectives import cross_entropy
from grb_check.errors import GradientError

few = settings(deadline=None, max_examples=25)


def aim_at(graph, model=None) -> Aim:
    nodes = torch.arange(graph.num_nodes)
    model = model or LinearModel(graph.x.shape[1], 3)
    return Aim(model, graph.x, nodes, graph.y, cross_entropy, nodes)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def example():
    x = torch.randn((6, 3), generator=generator())
    return graph_of(6, [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], x=x)


def gain_of_each(aim: Aim, edges: EdgeSet) -> dict[int, float]:
    """Return the gain of flipping each pair a little, by its code."""
    every = list(combinations(range(edges.num_nodes), 2))
    pairs = torch.tensor(every).T
    codes = edges.encode(pairs)
    logits_of = aim.model.with_pairs(aim.x, edges.edge_index(), pairs, aim.targets)
    weights = edges.has(codes).float().requires_grad_()
    (gradient,) = torch.autograd.grad(aim.value(logits_of(weights)), weights)
    gains = torch.where(edges.has(codes), -gradient, gradient)
    return dict(zip(codes.tolist(), gains.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["all", "random"])
def test_flips_come_by_their_gain(kind: str) -> None:
    """Best of all pairs and of random pairs, of which a quarter is kept and each pair is drawn."""
    torch.manual_seed(0)
    graph, model = example(), victim_of(gcn_of(3, (4,)))
    aim, edges = aim_at(graph, model if kind == "all" else LinearModel(3, 3)), edge_set(graph)
    assert has_all_pair_gradients(aim, edges) == (kind == "all")
    gains = gain_of_each(aim, edges)
    candidates = flip_source(aim, edges, 2000, generator())(edges, edges.codes[:0], 40)
    best = len(gains) if kind == "all" else -(-len(gains) // CHOSEN)
    expected = sorted(gains.values(), reverse=True)[:best]
    assert candidates.gains.tolist() == pytest.approx(expected, abs=1e-6)
    assert len(set(candidates.codes.tolist())) == best
    assert candidates.gains.tolist() == pytest.approx(
        [gains[code] for code in candidates.codes.tolist()], abs=1e-6
    )


def test_of_a_few_targets_all_pairs_are_drawn() -> None:
    """On a graph of which a random block would have one in ten of them."""
    x = torch.randn((200, 3), generator=generator())
    graph = graph_of(200, [(node, node + 1) for node in range(199)], x=x)
    edges, target = edge_set(graph), torch.tensor([7])
    aim = replace(aim_at(graph), targets=target, labels=graph.y[target])
    source = flip_source(aim, edges, 400 * CHOSEN, generator())
    best = max(gain_of_each(aim, edges).values())
    assert float(source(edges, edges.codes[:0], 1).gains) == pytest.approx(best, abs=1e-6)


def test_gains_are_those_of_the_current_graph() -> None:
    """Other flips change them."""
    graph = example()
    aim, clean = aim_at(graph), edge_set(graph)
    source = flip_source(aim, clean, 2000, generator())
    edges = clean.flipped(clean.encode(torch.tensor([[0, 0], [1, 5]])))
    candidates = source(edges, clean.codes[:0], 40)
    gains = gain_of_each(aim, edges)
    assert candidates.gains.tolist() == pytest.approx(
        [gains[code] for code in candidates.codes.tolist()], abs=1e-6
    )


@given(st.data(), st.integers(0, 99))
@few
def test_no_forbidden_flip_and_none_away_from_the_rows(data, seed) -> None:
    """For every source; removals are edges; gains descend."""
    graph = data.draw(graphs())
    edges, num_nodes = edge_set(graph), graph.num_nodes
    rows = data.draw(st.lists(st.integers(0, num_nodes - 1), unique=True, min_size=1))
    every = edges.encode(torch.triu_indices(num_nodes, num_nodes, offset=1)).tolist()
    taken = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    forbidden = torch.tensor(taken, dtype=torch.int64)
    torch.manual_seed(seed)
    model = victim_of(gcn_of(graph.x.shape[1], (4,)))
    block, count = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60))
    for guide in (None, model):
        aim = replace(aim_at(graph, guide), rows=torch.tensor(rows))
        for name, source in (
            ("any", flip_source(aim, edges, block, generator(seed))),
            ("removals", removals_only(aim, block, generator(seed))),
        ):
            candidates = source(edges, forbidden, count)
            codes = candidates.codes.tolist()
            assert len(set(codes)) == len(codes) == candidates.gains.numel() <= count
            assert not set(codes) & set(taken)
            assert all(set(pair) & set(rows) for pair in edges.ends(candidates.codes).T.tolist())
            assert candidates.gains.tolist() == sorted(candidates.gains.tolist(), reverse=True)
            assert name == "any" or edges.has(candidates.codes).all()


def test_a_model_without_weights_of_edges_is_an_error() -> None:
    """The error comes before any search and says what is missing."""
    graph = example()
    aim, edges = aim_at(graph, UnweightedModel(3, 3)), edge_set(graph)
    with pytest.raises(GradientError, match="takes no weights of them"):
        flip_source(aim, edges, 20, generator())
    with pytest.raises(GradientError, match="no gradient for edges"):
        removals_only(aim, 20, generator())(edges, edges.codes[:0], 3)
