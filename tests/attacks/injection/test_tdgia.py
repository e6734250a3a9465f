"""TDGIA: rounds, features of earlier rounds, and the range."""

from __future__ import annotations

import pytest
import torch
from strategies import LinearModel, graph_of
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat


def ring(num_nodes: int = 20) -> Data:
    """Two isolated nodes beside a ring, in three classes."""
    x = torch.rand((num_nodes, 4), generator=torch.Generator().manual_seed(2)) - 0.5
    edges = [(i, i + 1) for i in range(num_nodes - 3)]
    return graph_of(num_nodes, edges, x=x, y=torch.arange(num_nodes) % 3)


def threat_of(nodes: int, edges: int = 3, limits: tuple[float, float] = (-0.5, 0.5)) -> Threat:
    return Threat(
        scenario="injection",
        targets=torch.arange(0, 20, 2),
        injected_nodes=nodes,
        edges_per_injected_node=edges,
        feature_range=limits,
    )


class Watched:
    """A `LinearModel` that records the features it is called with, for each topology."""

    def __init__(self) -> None:
        self.model = LinearModel(4, 3)
        self.seen: list[list[Tensor]] = []

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.model(x, edge_index, edge_weight)

    def with_injected(self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor):
        logits_of = self.model.with_injected(x, edge_index, count, targets)
        queries: list[Tensor] = []
        self.seen.append(queries)

        def logits(injected: Tensor) -> Tensor:
            queries.append(injected.detach().clone())
            return logits_of(injected)

        return logits


def run(
    attack: InjectionTdgia, threat: Threat, seed: int = 0
) -> tuple[Perturbation, list[list[Tensor]]]:
    graph, model = ring(), Watched()
    perturbation = attack.perturb(graph, threat, model, torch.Generator().manual_seed(seed))
    verify(perturbation, graph, threat)
    return perturbation, model.seen


@pytest.mark.parametrize(
    ("rounds", "nodes", "sizes"),
    [(3, 7, [3, 5, 7]), (1, 7, [7]), (5, 2, [1, 2]), (5, 4, [1, 2, 3, 4]), (2, 6, [3, 6])],
)
def test_nodes_come_in_rounds(rounds: int, nodes: int, sizes: list[int]) -> None:
    """Rounds are of equal size, or the first ones larger; with few nodes, of one node each."""
    perturbation, seen = run(InjectionTdgia(rounds=rounds, iterations=2), threat_of(nodes))
    assert [queries[0].shape[0] for queries in seen] == sizes
    assert perturbation.injected_x.shape[0] == nodes
    assert torch.bincount(perturbation.injected_edges[0]).tolist() == [3] * nodes


def test_later_rounds_move_earlier_features_only_where_they_are_asked_to() -> None:
    """Without `reoptimise` the rows of earlier rounds stay to the bit; with it, they move."""
    threat = threat_of(6)
    fixed, seen = run(InjectionTdgia(rounds=3, iterations=10, reoptimise=False), threat)
    assert len(seen) == 3
    for queries in seen:
        known = queries[0].shape[0] - 2
        assert all(torch.equal(fixed.injected_x[:known], features[:known]) for features in queries)
        assert not torch.equal(queries[0][known:], queries[-1][known:])
    moved, seen = run(InjectionTdgia(rounds=3, iterations=1), threat)
    assert not torch.equal(seen[1][0][:2], moved.injected_x[:2])
