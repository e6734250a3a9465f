"""A search by answers on sets of graphs: never weaker, each graph in its budget."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import set_of_graphs
from torch import Tensor

from grb_check.attacks.budgets import threat_for
from grb_check.attacks.threat import Perturbation, apply, verify
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.evaluation.set_search import search_graphs

DATASET = graph_dataset(set_of_graphs(count=24))
THREAT = threat_for(DATASET, "full", "modification", 0.4)


def _edges(perturbation: Perturbation) -> Tensor:
    """float [G]: edges of each graph, which here stand for how strong a perturbation is."""
    attacked = apply(DATASET.graph, perturbation)
    of_graphs = DATASET.graph.batch[attacked.edge_index[0]]
    return torch.bincount(of_graphs, minlength=DATASET.num_graphs).float()


def _search(seed: int, *starts: Perturbation, isolate: bool = True) -> Perturbation:
    assert THREAT.edge_budgets is not None
    found = search_graphs(
        [*starts, Perturbation()],
        DATASET.graph,
        THREAT.edge_budgets,
        margins=lambda each: -_edges(each),
        isolate=isolate,
        generator=torch.Generator().manual_seed(seed),
        queries=15,
    )
    verify(found, DATASET.graph, THREAT)
    return found


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 999), isolate=st.booleans())
def test_every_graph_keeps_its_budget_and_gets_no_weaker(seed: int, isolate: bool) -> None:
    """From one search to the next, no graph loses what it had."""
    first = _search(seed, isolate=isolate)
    second = _search(seed + 1, first, isolate=isolate)
    clean = _edges(Perturbation())
    assert bool((_edges(first) <= clean).all())
    assert bool((_edges(second) <= _edges(first)).all())
    assert bool((_edges(second) < clean).any())
    if not isolate:
        ends = apply(DATASET.graph, second).edge_index[0]
        assert torch.unique(ends).numel() == torch.unique(DATASET.graph.edge_index[0]).numel()


def test_each_graph_takes_the_start_that_is_strongest_for_it() -> None:
    """Halves of two perturbations are joined, whichever comes first."""
    pairs = DATASET.graph.edge_index
    pairs = pairs[:, pairs[0] < pairs[1]]
    of_graphs = DATASET.graph.batch[pairs[0]]
    chosen = torch.tensor([int((of_graphs == graph).nonzero()[0]) for graph in range(6)])
    halves = [Perturbation(removed_edges=pairs[:, chosen[part]]) for part in ([0, 1, 2], [3, 4, 5])]
    for starts in (halves, halves[::-1]):
        found = search_graphs(
            starts,
            DATASET.graph,
            torch.ones(DATASET.num_graphs, dtype=torch.int64),
            margins=lambda each: -_edges(each),
            isolate=True,
            generator=torch.Generator().manual_seed(0),
            queries=0,
        )
        assert torch.equal(found.removed_edges, pairs[:, chosen.sort().values])


def test_the_same_seed_finds_the_same() -> None:
    """Nothing but the generator is random."""
    first, again = _search(7), _search(7)
    assert all(map(torch.equal, first.tensors(), again.tensors()))
