"""Weights of the edges of one type, where edges of another type are between the same nodes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv, SAGEConv
from torch_geometric.utils import to_undirected

from grb_check.datasets.reading.pyg_graph import dataset_of_graph
from grb_check.datasets.source import Selection
from grb_check.training.building import untrained_victim


class Relational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = RGCNConv(4, 8, 2), RGCNConv(8, 2, 2)
        self.seen: set[int] = set()

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        self.seen |= {len(torch.unique(edge_type))}
        hidden = self.first(x, edge_index, edge_type).relu()
        return self.last(hidden, edge_index, edge_type)  # type: ignore[no-any-return]


class Layers(nn.Module):
    """A layer for each type."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(4, 2), SAGEConv(4, 2)])

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        parts = (edge_index[:, edge_type == kind] for kind in range(2))
        one, other = (layer(x, part) for layer, part in zip(self.layers, parts, strict=True))
        return one + other  # type: ignore[no-any-return]


@pytest.mark.parametrize("size", [60, 400])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0], ids=["shifted", "within", "equal"])
@pytest.mark.parametrize("kind", [Relational, Layers])
def test_weights_are_those_of_real_removals(size: int, share: float, kind: type[nn.Module]) -> None:
    """On small graphs with every pair as a candidate, on larger ones with every edge."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    own = to_undirected(torch.randint(size, (2, 3 * size), generator=generator))
    own = own[:, own[0] != own[1]]
    other = own[:, (own.sum(0) % 10) < 10 * share] if share else (own + 1) % size
    data = Data(
        x=torch.randn(size, 4, generator=generator),
        y=torch.arange(size) % 2,
        edge_index=torch.cat([other, own], dim=1),
        edge_type=torch.arange(2).repeat_interleave(torch.tensor([other.shape[1], own.shape[1]])),
    )
    dataset = dataset_of_graph(
        data, name="d", origin="o", where="w", split=None, selection=Selection(edge_type=1)
    )
    victim = untrained_victim(kind(), dataset, name="m", device=torch.device("cpu"))
    assert victim is not None
    x, edges = dataset.graph.x, dataset.graph.edge_index
    nodes = torch.arange(size)
    pairs = torch.combinations(nodes).T if size == 60 else edges[:, edges[0] < edges[1]]
    logits_of = victim.with_pairs(x, edges, pairs, nodes)
    assert logits_of is not None
    is_edge = torch.isin(pairs[0] * size + pairs[1], edges[0] * size + edges[1])
    kept = is_edge & (torch.rand(pairs.shape[1], generator=generator) < 0.7)
    left = torch.cat([pairs[:, kept], pairs[:, kept].flip(0)], dim=1)
    torch.testing.assert_close(logits_of(is_edge.float()), victim(x, edges), rtol=0, atol=1e-4)
    torch.testing.assert_close(logits_of(kept.float()), victim(x, left), rtol=0, atol=1e-4)
    if isinstance(victim.module, Relational):
        assert victim.module.seen == {2}  # also on the part of the graph that a trial calls it on
