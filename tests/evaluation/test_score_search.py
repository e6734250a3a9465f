"""The search by answers: what it keeps, and that it finds what is best."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graph_of, graphs, pairs, perturbations, threats
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, Scenario, Threat, verify
from grb_check.evaluation.score_search import Pool, search


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sizes(perturbation: Perturbation) -> tuple[int, int, int]:
    flips = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    return flips, perturbation.modified_nodes.numel(), perturbation.injected_x.shape[0]


def digits(perturbation: Perturbation) -> float:
    """Some number that differs between most perturbations."""
    values = [each.double().flatten() for each in perturbation.tensors()]
    return float(torch.cat(values).sin().sum())


@st.composite
def several(draw: Any, scenario: Scenario) -> tuple[Data, Threat, list[Perturbation]]:
    graph = draw(graphs())
    threat = draw(threats(graph, scenario))
    made = draw(st.lists(perturbations(graph, threat), min_size=1, max_size=4))
    return graph, threat, made


@pytest.mark.parametrize("scenario", ["modification", "injection"])
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_found_is_within_the_threat_and_no_weaker(scenario: Any, data: Any) -> None:
    """It has no more parts than what it started from; every query is within the threat."""
    graph, threat, made = data.draw(several(scenario))
    starts, donors = made[:2], made[2:]
    asked: list[Perturbation] = []

    def score(perturbation: Perturbation) -> tuple[float, ...]:
        asked.append(perturbation)
        verify(perturbation, graph, threat)
        return (digits(perturbation),)

    found = search(
        starts,
        donors,
        graph,
        scenario,
        score=score,
        allowed=lambda _: True,
        generator=seeded(),
        queries=12,
    )
    assert digits(found) == min(map(digits, asked))
    assert sizes(found) in [sizes(start) for start in starts]
    assert len(asked) <= len(starts) + 12


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 30), st.data())
def test_a_swap_keeps_the_number_and_one_part_of_each_owner(
    owners: list[int], count: int, data: Any
) -> None:
    """And what is new is at most what was asked for."""
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
    """Each perturbation has one of the good flips; the search has all of them in the end."""
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

    found = search(
        starts[:1],
        starts[1:],
        graph,
        "modification",
        score=score,
        allowed=lambda _: True,
        generator=seeded(),
    )
    assert set(map(tuple, found.added_edges.t().tolist())) == good


def test_what_is_not_allowed_is_not_asked() -> None:
    """The victim is spared, and the start stays."""
    graph = graph_of(4, [(0, 1), (1, 2), (2, 3)])
    start, other = (Perturbation(removed_edges=pairs([each])) for each in ((0, 1), (2, 3)))
    asked = []
    found = search(
        [start],
        [other],
        graph,
        "modification",
        score=lambda each: (asked.append(each) or 1.0,),  # type: ignore[func-returns-value]
        allowed=lambda _: False,
        generator=seeded(),
    )
    assert found is start
    assert asked == [start]


def test_links_between_injected_nodes_stay_where_both_ends_do() -> None:
    """A node that another perturbation replaces takes its own links along."""
    graph = graph_of(3, [(0, 1)])
    start = Perturbation(
        injected_x=torch.zeros(2, 2), injected_edges=torch.tensor([[0, 0, 1], [0, 4, 1]])
    )
    other = Perturbation(
        injected_x=torch.ones(2, 2), injected_edges=torch.tensor([[0, 0, 1], [2, 4, 2]])
    )
    met: dict[str, list[list[int]]] = {}

    def score(each: Perturbation) -> tuple[float, ...]:
        key = "".join(str(int(value)) for value in each.injected_x[:, 0])
        met[key] = sorted(each.injected_edges.t().tolist())
        return (0.0,)

    search(
        [start],
        [other],
        graph,
        "injection",
        score=score,
        allowed=lambda _: True,
        generator=seeded(),
    )
    assert met == {
        "00": [[0, 0], [0, 4], [1, 1]],
        "01": [[0, 0], [1, 2]],
        "10": [[0, 2], [1, 1]],
        "11": [[0, 2], [0, 4], [1, 2]],
    }
