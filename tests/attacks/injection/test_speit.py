"""SPEIT's links: by degree, and among the injected nodes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, threats
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.speit import InjectionSpeit
from grb_check.attacks.threat import Threat, verify
from grb_check.errors import UsageError


def links_of(attack: InjectionSpeit, graph: Data, threat: Threat, seed: int = 0) -> Tensor:
    model = LinearModel(graph.x.shape[1], int(graph.y.max()) + 1)
    perturbation = attack.perturb(graph, threat, model, torch.Generator().manual_seed(seed))
    verify(perturbation, graph, threat)
    return perturbation.injected_edges


def threat_of(targets: Tensor, nodes: int, edges: int) -> Threat:
    return Threat(
        scenario="injection",
        targets=targets,
        injected_nodes=nodes,
        edges_per_injected_node=edges,
        feature_range=(-1.0, 1.0),
    )


@pytest.mark.parametrize(
    ("inner_links", "nodes", "edges", "inner"),
    [
        (2, 6, 5, 2),
        (4, 6, 5, 4),
        (0, 6, 5, 0),
        (6, 6, 9, 4),  # five other injected nodes, and the ring takes two at a time
        (4, 6, 4, 2),  # one edge is left for a target
        (2, 6, 2, 0),
        (2, 2, 5, 0),
        (2, 3, 5, 2),
    ],
)
def test_links_among_injected_nodes_are_part_of_the_budget(
    inner_links: int, nodes: int, edges: int, inner: int
) -> None:
    """Every node uses all its edges, that many of them to injected nodes."""
    graph = graph_of(20, [(i, i + 1) for i in range(19)])
    attack = InjectionSpeit(inner_links=inner_links, iterations=0)
    new, other = links_of(attack, graph, threat_of(torch.arange(20), nodes, edges))
    among = other >= 20
    ends = torch.cat([new[among], other[among] - 20])
    assert torch.bincount(ends, minlength=nodes).tolist() == [inner] * nodes
    assert torch.bincount(new[~among]).tolist() == [edges - inner] * nodes


@given(st.data(), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_low_degrees_get_the_remainder(data, seed) -> None:
    """No target has fewer links than one of higher degree, or two fewer than any."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "injection"))
    links = links_of(InjectionSpeit(iterations=0), graph, threat, seed)
    degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    received = torch.bincount(links[1], minlength=graph.num_nodes)
    found = sorted((int(degrees[v]), -int(received[v])) for v in threat.targets)
    counts = [-negative for _, negative in found]
    assert counts == sorted(counts, reverse=True)
    assert not counts or counts[0] - counts[-1] <= 1


def test_every_injected_node_gets_low_and_high_degrees() -> None:
    """Ten targets of degree 1 and ten of degree 2; ten nodes with four links of each."""
    chain = [(3 * i, 3 * i + 1) for i in range(10)] + [(3 * i + 1, 3 * i + 2) for i in range(10)]
    graph = graph_of(30, chain)
    targets = torch.tensor([v for v in range(30) if v % 3 != 2])
    links = links_of(InjectionSpeit(iterations=0), graph, threat_of(targets, 10, 10))
    outer = links[:, links[1] < 30]
    high = torch.bincount(outer[0][outer[1] % 3 == 1], minlength=10)
    assert torch.bincount(outer[0]).tolist() == [8] * 10
    assert high.tolist() == [4] * 10


def test_ties_are_broken_at_random() -> None:
    """With two seeds different targets of the same degree get the remainder."""
    graph, threat = graph_of(30, []), threat_of(torch.arange(30), 3, 5)
    first, second = (
        set(links_of(InjectionSpeit(inner_links=0, iterations=0), graph, threat, seed)[1].tolist())
        for seed in (0, 1)
    )
    assert len(first) == len(second) == 15
    assert first != second


@pytest.mark.parametrize("inner_links", [-2, 1, 3])
def test_a_ring_of_odd_or_negative_degree_is_refused(inner_links: int) -> None:
    """The message says what is allowed."""
    with pytest.raises(UsageError, match=rf"inner_links is {inner_links}; it must be 0, 2, 4"):
        InjectionSpeit(inner_links=inner_links)
