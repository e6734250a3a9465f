"""Members around one node, which a new account hides best by a link to that node."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
from alternating import victim_of
from strategies import graph_of
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from grb_check.attacks.gangs import threat_of_gangs
from grb_check.attacks.names import Gang
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.gradients.victim import Victim

MEMBERS: Final = 6
HUB: Final = 0


class TwoSums(nn.Module):
    """Twice each node's row and those of its neighbours added up: the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.first = SimpleConv("sum", combine_root="sum")
        self.second = SimpleConv("sum", combine_root="sum")

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        h = self.first(x, edge_index, edge_weight)
        logits: Tensor = self.second(h, edge_index, edge_weight)
        return logits


def hub_graph() -> Data:
    """Node 0 with the members 1 to 6, of class 1; and two nodes of class 0 by themselves."""
    x = torch.tensor([[0.0, 0.0], *[[0.0, 0.1]] * MEMBERS, [0.1, 0.0], [0.1, 0.0]])
    graph = graph_of(9, [(HUB, member) for member in range(1, MEMBERS + 1)] + [(7, 8)], x=x)
    graph.y = torch.tensor([0, *[1] * MEMBERS, 0, 0])
    return graph


def hub_model() -> Victim:
    return victim_of(TwoSums(), num_classes=2)


def hub_threat(hops: int) -> Threat:
    """All members, with one new account of one link."""
    whole = Threat(
        scenario="injection", targets=torch.arange(1, MEMBERS + 1), feature_range=(-1.0, 1.0)
    )
    part = threat_of_gangs(hub_graph(), whole, Gang(MEMBERS, 1, hops), "here").parts[0]
    return replace(part, injected_nodes=1)


def found(perturbation: Perturbation) -> int:
    """Number of members that the model finds."""
    attacked = apply(hub_graph(), perturbation)
    return int(hub_model()(attacked.x, attacked.edge_index)[1 : MEMBERS + 1].argmax(1).sum())
