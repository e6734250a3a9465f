"""TDGIA: rounds, features of earlier rounds, and the range."""

from __future__ import annotations

import pytest
import torch
from strategies import LinearModel, graph_of
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.attacks.threat import Perturbation, Threat, verify
from grb_check.errors import UsageError


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
        asked: list[Tensor] = []
        self.seen.append(asked)

        def logits(injected: Tensor) -> Tensor:
            asked.append(injected.detach().clone())
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
    assert [asked[0].shape[0] for asked in seen] == sizes
    assert perturbation.injected_x.shape[0] == nodes
    assert torch.bincount(perturbation.injected_edges[0]).tolist() == [3] * nodes


@pytest.mark.parametrize("dealing", ["grouped", "even"])
def test_more_links_than_targets_come_to_an_end(dealing: str) -> None:
    """Two nodes, five rounds, 30 edges, 10 targets: each node is linked to all."""
    attack = InjectionTdgia(iterations=2, dealing=dealing)
    perturbation, _ = run(attack, threat_of(2, edges=30))
    assert perturbation.injected_edges.shape[1] == 20
    assert len(perturbation.notes) == 1


def test_later_rounds_move_earlier_features_only_where_they_are_asked_to() -> None:
    """Without `reoptimise` the rows of earlier rounds stay to the bit; with it, they move."""
    threat = threat_of(6)
    kept, seen = run(InjectionTdgia(rounds=3, iterations=10, reoptimise=False), threat)
    assert len(seen) == 3
    for asked in seen:
        known = asked[0].shape[0] - 2
        assert all(torch.equal(kept.injected_x[:known], features[:known]) for features in asked)
        assert not torch.equal(asked[0][known:], asked[-1][known:])
    moved, seen = run(InjectionTdgia(rounds=3, iterations=1), threat)
    assert not torch.equal(seen[1][0][:2], moved.injected_x[:2])


def test_a_round_goes_where_the_last_one_did_not() -> None:
    """With a model that gives constant logits the degree decides, injected links included."""
    circle = [(i, i + 1) for i in range(11)] + [(0, 11)]
    graph = graph_of(12, circle, x=torch.zeros(12, 4), y=torch.arange(12) % 3)
    threat = Threat(
        scenario="injection",
        targets=torch.arange(10),
        injected_nodes=2,
        edges_per_injected_node=5,
        feature_range=(-0.5, 0.5),
    )
    model = LinearModel(4, 3, weight=torch.zeros(4, 3))
    attack = InjectionTdgia(rounds=2, iterations=2)
    links = attack.perturb(graph, threat, model, torch.Generator()).injected_edges
    assert sorted(links[1].tolist()) == list(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("limits", [(-0.072, 0.928), (0.25, 0.75)])
def test_features_fill_a_range_that_is_not_symmetric(limits: tuple[float, float]) -> None:
    """Features reach both limits and stay within them."""
    attack = InjectionTdgia(iterations=150, step_size=0.05, patience=None)
    perturbation, seen = run(attack, threat_of(6, limits=limits))
    low, high = torch.tensor(limits)
    for features in (perturbation.injected_x, *(each for asked in seen for each in asked)):
        assert features.min() >= low
        assert features.max() <= high
    ends = perturbation.injected_x
    assert float((ends - low).min()) < 0.01
    assert float((high - ends).min()) < 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds is 0; it must be 1 or more"),
        ({"dealing": "odd"}, "unknown dealing 'odd'; allowed: grouped, even"),
        ({"objective": "loss"}, "unknown objective 'loss'"),
    ],
)
def test_invalid_settings_are_refused(settings: dict, message: str) -> None:
    """Each is named with what is allowed."""
    with pytest.raises(UsageError, match=message):
        InjectionTdgia(**settings)
