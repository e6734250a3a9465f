"""A graph with two types of edges, and a model of which each node hears edges of one type."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import grb_check
from grb_check.attacks.threat import Knowledge, Perturbation, Threat

SIZE = 120


def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    y, group = torch.arange(SIZE) % 2, torch.arange(SIZE) // 2 % 2
    pairs = to_undirected(torch.randint(SIZE, (2, 900), generator=generator))
    pairs = pairs[:, group[pairs[0]] == group[pairs[1]]]
    x = torch.stack([1.0 * (y == 0), 1.0 * (y == 1), 1.0 * group], dim=1)
    return Data(x=x, y=y, edge_index=pairs, edge_type=1 - group[pairs[0]])


class Deaf(nn.Module):
    """Nodes of group 0 hear edges of type 0 alone, and have edges of type 1; group 1 likewise."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        source, target = edge_index
        heard = (edge_type == (x[target, 2] > 0.5)).float()
        heard = heard * (target < SIZE)
        sums = torch.zeros(x.shape[0], 2).index_add(0, target, heard[:, None] * x[source, :2])
        return 2 * x[:, :2] + sums


class Numb(Deaf):
    """The same without a gradient."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.from_numpy(super().forward(x, edge_index, edge_type).numpy())


def numb() -> grb_check.Trained:
    return grb_check.Trained(Numb().eval())


def build() -> grb_check.Trained:
    return grb_check.Trained(Deaf().eval())


class Strangers:
    """An attack: all new nodes are of class 1, and linked to all targets of class 0."""

    name, scenario = "strangers", "injection"

    def __init__(self, kind: Callable[[Tensor], Tensor], knowledge: Knowledge) -> None:
        self.kind, self.knowledge = kind, knowledge

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        to = threat.targets[threat.targets % 2 == 0].cpu()
        new = torch.arange(threat.injected_nodes).repeat_interleave(to.numel())
        to = to.repeat(threat.injected_nodes)
        return Perturbation(
            injected_x=torch.tensor([[0.0, 1.0, 0.0]]).repeat(threat.injected_nodes, 1),
            injected_edges=torch.stack([new, to]),
            added_types=self.kind(to // 2 % 2),
        )


chooses = Strangers(lambda group: group, "black-box")
leaves_open = Strangers(lambda group: group[:0], "black-box")
chooses_and_knows = Strangers(lambda group: group, "white-box")
leaves_open_and_knows = Strangers(lambda group: group[:0], "white-box")
unknown = Strangers(lambda group: torch.full_like(group, 7), "black-box")
