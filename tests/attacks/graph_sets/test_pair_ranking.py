"""Flips of largest gain in each graph, and their sources."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from graph_unions import PooledGat, threat_to, union_of, unions, victim_on
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.graph_sets import pair_ranking
from grb_check.attacks.graph_sets.candidate_flips import Search, search_of
from grb_check.attacks.graph_sets.graph_list import GraphList, graph_list, no_flips
from grb_check.attacks.graph_sets.greedy_flips import row_objective
from grb_check.attacks.graph_sets.pair_ranking import best_of_each
from grb_check.attacks.protocol import PairGradients

few = settings(deadline=None, max_examples=30)


def random_gradients(num_nodes: int, seed: int, rank: int = 3) -> PairGradients:
    drawn = torch.randn((num_nodes, 2 * rank + 1), generator=torch.Generator().manual_seed(seed))
    return PairGradients(drawn[:, :rank], drawn[:, rank:-1], drawn[:, -1])


@given(unions(), st.integers(0, 2**16), st.integers(1, 40), st.data())
@few
def test_ranking_is_that_of_all_pairs_one_by_one(union, seed, count, data) -> None:
    """For each kind, with and without blocks; forbidden pairs are left out."""
    graph, threat = union
    graphs = graph_list(graph, threat, victim_on(graph))
    owners = torch.arange(graph.y.numel())
    copies = graphs.copies(owners, no_flips(owners.numel(), 0, owners))
    gradients = random_gradients(graph.num_nodes, seed)
    ends = [(a, b) for a, b in graph.edge_index.T.tolist() if a < b]
    every = [
        (a, b)
        for a, b in combinations(range(graph.num_nodes), 2)
        if graph.batch[a] == graph.batch[b]
    ]
    barred = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    forbidden = torch.tensor(barred, dtype=torch.int64).reshape(-1, 2).T
    for limit in (1_500, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair_ranking, "LARGE", limit)
            ranking = best_of_each(gradients, copies, forbidden, count)
        for owner in owners.tolist():
            graph_pairs = [
                pair for pair in every if graph.batch[pair[0]] == owner and pair not in barred
            ]
            start, size = int(graphs.starts[owner]), int(graphs.sizes[owner])
            for kind, pairs, sign in (
                (
                    ranking.additions,
                    [candidate for candidate in graph_pairs if candidate not in ends],
                    1.0,
                ),
                (
                    ranking.removals,
                    [candidate for candidate in graph_pairs if candidate in ends],
                    -1.0,
                ),
            ):
                gains = {
                    (a - start) * size + b - start: sign
                    * float(gradients.at(torch.tensor([[a], [b]])))
                    for a, b in pairs
                }
                best = sorted(gains.values(), reverse=True)[:count]
                codes = kind.codes[owner][: len(best)].tolist()
                assert (kind.codes[owner][len(best) :] == -1).all()
                assert len(set(codes)) == len(codes)
                assert [gains[code] for code in codes] == pytest.approx(best, abs=1e-4)
                assert kind.gains[owner][: len(best)].tolist() == pytest.approx(best, abs=1e-4)


def search_on(graphs: GraphList, block_size: int = 1_000) -> Search:
    return search_of(
        graphs,
        row_objective("margin"),
        isolate=True,
        block_size=block_size,
        generator=torch.Generator().manual_seed(0),
    )


def test_random_pairs_are_all_pairs_of_a_small_graph() -> None:
    """Each has the gain of the model's own gradient."""
    graph = union_of([5, 3], [[(0, 1), (1, 2), (2, 3)], [(0, 1)]])
    graphs = graph_list(graph, threat_to(graph, [1, 1]), victim_on(graph, PooledGat))
    owners = torch.tensor([0, 1])
    flips = search_on(graphs).source(owners, no_flips(2, 0, owners), 10)
    removals, additions = flips.removals.codes, flips.additions.codes
    assert [sorted(codes[codes >= 0].tolist()) for codes in removals] == [[1, 7, 13], [1]]
    assert [sorted(codes[codes >= 0].tolist()) for codes in additions] == [
        [2, 3, 4, 8, 9, 14, 19],
        [2, 5],
    ]


def test_gains_at_partly_made_flips_are_those_of_autograd() -> None:
    """With weights of an edge and of another pair between 0 and 1."""
    graph = union_of([5, 4], [[(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 3)]])
    victim = victim_on(graph)
    graphs = graph_list(graph, threat_to(graph, [2, 2]), victim)
    owners = torch.tensor([0, 1])
    flips, weights = torch.tensor([[1, 4], [2, -1]]), torch.tensor([[0.3, 0.6], [0.2, 0.0]])
    candidates = search_on(graphs).source(owners, flips, 20, weights)

    every = [(a, b) for n, s in ((5, 0), (4, 5)) for a, b in _shifted(n, s)]
    pairs = torch.tensor(every).T
    present = torch.tensor([[a, b] in graph.edge_index.T.tolist() for a, b in every]).float()
    of_pairs = present.clone()
    for pair, weight in (((0, 1), 0.7), ((0, 4), 0.6), ((5, 7), 0.2)):
        of_pairs[every.index(pair)] = weight
    of_pairs.requires_grad_()
    logits_of = victim.with_pairs(graph.x, graph.edge_index, pairs, torch.arange(2))
    assert logits_of is not None
    row_objective("margin")(logits_of(of_pairs), graph.y).sum().backward()
    gains = torch.where(present > 0, -of_pairs.grad, of_pairs.grad)
    for row, (start, size) in enumerate(((0, 5), (5, 4))):
        for kind in (candidates.additions, candidates.removals):
            for code, gain in zip(kind.codes[row].tolist(), kind.gains[row].tolist(), strict=True):
                if code >= 0:
                    pair = (code // size + start, code % size + start)
                    assert code not in flips[row]
                    assert gain == pytest.approx(float(gains[every.index(pair)]), abs=1e-5)


def _shifted(size: int, start: int) -> list[tuple[int, int]]:
    return [(a + start, b + start) for a, b in combinations(range(size), 2)]


def test_graphs_without_gradients_are_searched_at_random(monkeypatch) -> None:
    """If the factors of even one graph are too large."""
    graph = union_of([5, 4], [[(0, 1), (1, 2)], [(0, 1), (2, 3)]])
    graphs = graph_list(graph, threat_to(graph, [1, 1]), victim_on(graph))
    owners = torch.arange(2)
    search = search_on(graphs)
    expected = search.source(owners, no_flips(2, 0, owners), 4)
    monkeypatch.setattr("grb_check.gradients.layer_factors.MOST_ENTRIES", 0)
    candidates = search.source(owners, no_flips(2, 0, owners), 4)
    assert torch.equal(candidates.removals.codes, expected.removals.codes)
    assert torch.allclose(candidates.additions.gains, expected.additions.gains, atol=1e-5)


def test_isolating_removals_are_no_candidates() -> None:
    graph = union_of([4], [[(0, 1), (1, 2), (0, 2), (2, 3)]])
    graphs = graph_list(graph, threat_to(graph, [2]), victim_on(graph))
    owners = torch.tensor([0])
    source = replace(search_on(graphs).source, isolate=False)
    assert sorted(source(owners, no_flips(1, 0, owners), 3).removals.codes[0].tolist()) == [1, 2, 6]
    after = source(owners, torch.tensor([[1]]), 3).removals.codes[0]  # 0 and 1 have one edge left
    assert after.tolist() == [-1, -1, -1]
