"""The search by queries: within the threat, no weaker than its starts, best in small cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import set_of_graphs
from strategies import graph_of, graphs, pairs, perturbations, threats
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.budgets import threat_for
from grb_check.attacks.query_search import ExchangedParts, GraphFlips, Pool, search
from grb_check.attacks.referee import verify
from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.datasets.graph_dataset import graph_dataset

GRAPHS = graph_dataset(set_of_graphs(count=24))
THREAT = threat_for(GRAPHS, "full", "modification", 0.4)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sizes(perturbation: Perturbation) -> tuple[int, int, int]:
    flips = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    return flips, perturbation.modified_nodes.numel(), perturbation.injected_x.shape[0]


def digits(perturbation: Perturbation) -> float:
    """A number that differs between most perturbations."""
    values = [tensor.double().flatten() for tensor in perturbation.tensors()]
    return float(torch.cat(values).sin().sum())


@st.composite
def several(draw: Any, scenario: Scenario) -> tuple[Data, Threat, list[Perturbation]]:
    graph = draw(graphs())
    threat = draw(threats(graph, scenario))
    candidates = draw(st.lists(perturbations(graph, threat), min_size=1, max_size=4))
    return graph, threat, candidates


@pytest.mark.parametrize("scenario", ["modification", "injection"])
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_found_is_within_the_threat_and_no_weaker(scenario: Any, data: Any) -> None:
    """It has no more parts than what it started from; every query is within the threat."""
    graph, threat, candidates = data.draw(several(scenario))
    starts, donors = candidates[:2], candidates[2:]
    queries: list[Perturbation] = []

    def score(perturbation: Perturbation) -> tuple[float, ...]:
        queries.append(perturbation)
        verify(perturbation, graph, threat)
        return (digits(perturbation),)

    parts = ExchangedParts(
        starts,
        donors,
        graph,
        scenario,
        score=score,
        allowed=lambda _: True,
        generator=seeded(),
    )
    result = search(parts, queries=12)
    assert digits(result) == min(map(digits, queries))
    assert sizes(result) in [sizes(start) for start in starts]
    assert len(queries) <= len(starts) + 12


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 30), st.data())
def test_a_swap_keeps_the_number_and_one_part_of_each_owner(
    owners: list[int], count: int, data: Any
) -> None:
    """No more parts are new than asked for."""
    pool = Pool(torch.tensor(owners))
    firsts = [owners.index(owner) for owner in sorted(set(owners))]
    size = data.draw(st.integers(0, len(firsts)))
    chosen = torch.tensor(sorted(firsts[:size]), dtype=torch.int64)
    swapped = pool.swapped(chosen, count, seeded())
    assert swapped.numel() == chosen.numel()
    assert pool.owners[swapped].unique().numel() == swapped.numel()
    new = set(swapped.tolist()) - set(chosen.tolist())
    assert len(new) <= count
    others = set(range(len(owners))) - set(chosen.tolist())
    assert bool(new) is bool(others and size)


def test_the_best_flips_of_all_are_brought_together() -> None:
    """Each perturbation has one of the good flips; the search ends with all of them."""
    graph = graph_of(12, [(i, i + 1) for i in range(11)])
    good = {(0, 5), (1, 6), (2, 7)}
    starts = [
        Perturbation(added_edges=pairs(sorted([best, *rest])))
        for best, rest in zip(
            sorted(good), ([(3, 9), (3, 10)], [(4, 9), (4, 10)], [(5, 9), (5, 11)]), strict=True
        )
    ]

    def score(perturbation: Perturbation) -> tuple[float, ...]:
        return (-len(good & set(map(tuple, perturbation.added_edges.t().tolist()))),)

    parts = ExchangedParts(
        starts[:1],
        starts[1:],
        graph,
        "modification",
        score=score,
        allowed=lambda _: True,
        generator=seeded(),
    )
    result = search(parts)
    assert set(map(tuple, result.added_edges.t().tolist())) == good


def test_what_is_not_allowed_is_not_asked() -> None:
    """The model is not called, and the start is returned."""
    graph = graph_of(4, [(0, 1), (1, 2), (2, 3)])
    start, other = (Perturbation(removed_edges=pairs([edge])) for edge in ((0, 1), (2, 3)))
    queries = []
    parts = ExchangedParts(
        [start],
        [other],
        graph,
        "modification",
        score=lambda query: (queries.append(query) or 1.0,),  # type: ignore[func-returns-value]
        allowed=lambda _: False,
        generator=seeded(),
    )
    result = search(parts)
    assert result is start
    assert queries == [start]


def _edges(perturbation: Perturbation) -> Tensor:
    """float [G]: edges of each graph; here, the fewer edges, the stronger the perturbation."""
    attacked = apply(GRAPHS.graph, perturbation)
    of_graphs = GRAPHS.graph.batch[attacked.edge_index[0]]
    return torch.bincount(of_graphs, minlength=GRAPHS.num_graphs).float()


def _search(seed: int, *starts: Perturbation, isolate: bool = True) -> Perturbation:
    assert THREAT.edge_budgets is not None
    flips = GraphFlips(
        [*starts, Perturbation()],
        GRAPHS.graph,
        THREAT.edge_budgets,
        margins=lambda flips_made: -_edges(flips_made),
        isolate=isolate,
        generator=seeded(seed),
    )
    result = search(flips, queries=15)
    verify(result, GRAPHS.graph, THREAT)
    return result


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 999), isolate=st.booleans())
def test_every_graph_keeps_its_budget_and_gets_no_weaker(seed: int, isolate: bool) -> None:
    """A second search from the result of the first improves on it for every graph."""
    first = _search(seed, isolate=isolate)
    second = _search(seed + 1, first, isolate=isolate)
    clean = _edges(Perturbation())
    assert bool((_edges(first) <= clean).all())
    assert bool((_edges(second) <= _edges(first)).all())
    assert bool((_edges(second) < clean).any())
    if not isolate:
        ends = apply(GRAPHS.graph, second).edge_index[0]
        assert torch.unique(ends).numel() == torch.unique(GRAPHS.graph.edge_index[0]).numel()
