"""Camouflage: whom targets are linked to."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graphs, threats
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.camouflage import ModificationCamouflage
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Threat
from grb_check.errors import UsageError


class Scored:
    """Finds node v innocent by `innocence[v]`."""

    def __init__(self, innocence: Tensor) -> None:
        self.logits = torch.stack([innocence, torch.zeros_like(innocence)], dim=1)

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: object = None) -> Tensor:
        return self.logits


def lonely(nodes: int) -> Data:
    edges = torch.empty(2, 0, dtype=torch.int64)
    return Data(x=torch.zeros(nodes, 1), edge_index=edges, y=torch.ones(nodes, dtype=torch.int64))


def test_targets_are_linked_to_the_most_innocent_in_turn() -> None:
    """Two targets with three links each: to the four nodes of the highest scores, none to another
    target, however innocent it looks."""
    innocence = torch.tensor([9.0, 9.0, 1.0, 8.0, 7.0, 6.0, 5.0, 2.0])
    threat = Threat(scenario="modification", targets=torch.tensor([0, 1]), edge_budget=6)
    made = ModificationCamouflage().perturb(
        lonely(8), threat, Scored(innocence), torch.Generator().manual_seed(0)
    )
    first, second = made.added_edges
    assert torch.bincount(first).tolist() == [3, 3]
    assert set(second.tolist()) == {3, 4, 5, 6}
    assert not made.removed_edges.numel()
    assert not made.notes


def test_repeats_differ() -> None:
    innocence = torch.arange(30.0)
    threat = Threat(scenario="modification", targets=torch.arange(10), edge_budget=15)
    made = [
        ModificationCamouflage().perturb(
            lonely(30), threat, Scored(innocence), torch.Generator().manual_seed(seed)
        )
        for seed in range(2)
    ]
    assert not torch.equal(made[0].added_edges, made[1].added_edges)


@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_only_edges_at_targets_are_added_within_local_budgets(data, seed) -> None:
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "modification", local=True))
    model = LinearModel(graph.x.shape[1], int(graph.y.max()) + 1)
    made = ModificationCamouflage().perturb(
        graph, threat, model, torch.Generator().manual_seed(seed)
    )
    verify(made, graph, threat)
    assert not made.removed_edges.numel()
    assert torch.isin(made.added_edges, threat.targets).any(0).all()


def test_surrogates_of_a_white_box_attack_are_refused() -> None:
    with pytest.raises(UsageError, match="white-box"):
        ModificationCamouflage(surrogates=("gin",), knowledge="white-box")
