"""SPEIT's links: by degree, and among the injected nodes."""

from __future__ import annotations

import pytest
import torch
from strategies import LinearModel, graph_of
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


@pytest.mark.parametrize("inner_links", [-2, 1, 3])
def test_a_ring_of_odd_or_negative_degree_is_refused(inner_links: int) -> None:
    """The message says what is allowed."""
    with pytest.raises(UsageError, match=rf"inner_links is {inner_links}; it must be 0, 2, 4"):
        InjectionSpeit(inner_links=inner_links)
