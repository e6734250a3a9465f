"""PyG's models and convolutions as classifiers of nodes, untrained, and a small graph for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

NODES: Final = 240
WIDTH: Final = 8
Make = Callable[[int, int], nn.Module]


def small_graph() -> Data:
    """A random graph of 240 nodes with 8 features and 3 classes that are told by them."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    y = torch.arange(NODES) % 3
    x = torch.randn(NODES, WIDTH, generator=generator) + 2 * torch.eye(3, WIDTH)[y]
    part = torch.arange(NODES) % 4
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    return Data(x=x, edge_index=erdos_renyi_graph(NODES, 0.03), y=y, **masks)


class Layers(nn.Module):
    """A convolution, a rectifier and a linear map; `initial` is given to those that need x_0."""

    def __init__(self, conv: nn.Module, width: int, classes: int, *, initial: bool = False) -> None:
        super().__init__()
        self.conv, self.out, self.initial = conv, nn.Linear(width, classes), initial

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, x, edge_index) if self.initial else self.conv(x, edge_index)
        h = h[0] if isinstance(h, tuple) else h
        out: Tensor = self.out(h.relu())
        return out


class History(nn.Module):
    """DNAConv, which reads the outputs of earlier layers, [N, layers, width]."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.conv, self.out = pyg.DNAConv(width), nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.stack([x, x.relu()], dim=1)
        out: Tensor = self.out(self.conv(h, edge_index))
        return out


class WithBatch(nn.Module):
    """A model that wants to know of which graph each node is: all of one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        batch = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        out: Tensor = self.model(x, edge_index, batch)
        return out


def _conv(make: Callable[[int], nn.Module], width: int = 16, *, initial: bool = False) -> Make:
    return lambda d, c: Layers(make(d), width, c, initial=initial)


def _kind(name: str, **settings: Any) -> Make:
    return _conv(lambda d: getattr(pyg, name)(d, 16, **settings))


def _model(name: str, **settings: Any) -> Make:
    return lambda d, c: getattr(pyg, name)(d, 16, 2, c, **settings)


def _mlp(d: int) -> nn.Module:
    return pyg.MLP([d, 16, 16], norm=None)


def _edge_mlp(d: int) -> nn.Module:
    return pyg.MLP([2 * d, 16], norm=None)


_DEGREES: Final = torch.tensor([0, 10, 20, 20, 10, 5, 1])
_PNA: Final[dict[str, Any]] = {
    "aggregators": ["mean", "max", "std"],
    "scalers": ["identity", "amplification"],
    "deg": _DEGREES,
}

CONVOLUTIONS: Final[dict[str, Make]] = {
    "GCNConv": _kind("GCNConv"),
    "GATConv": _kind("GATConv"),
    "GATv2Conv": _kind("GATv2Conv"),
    "SAGEConv, mean": _kind("SAGEConv"),
    "SAGEConv, max": _kind("SAGEConv", aggr="max"),
    "SAGEConv, median": _kind("SAGEConv", aggr="median"),
    "SAGEConv, lstm": _kind("SAGEConv", aggr="lstm"),
    "SAGEConv, softmax": _kind("SAGEConv", aggr="softmax"),
    "GraphConv": _kind("GraphConv"),
    "GINConv": _conv(lambda d: pyg.GINConv(_mlp(d))),
    "ChebConv": _kind("ChebConv", K=2),
    "SGConv": _kind("SGConv", K=2),
    "SSGConv": _kind("SSGConv", alpha=0.1, K=2),
    "APPNP": _conv(lambda d: pyg.APPNP(10, 0.1), WIDTH),
    "LGConv": _conv(lambda d: pyg.LGConv(), WIDTH),
    "SimpleConv": _conv(lambda d: pyg.SimpleConv(aggr="mean"), WIDTH),
    "TAGConv": _kind("TAGConv"),
    "ARMAConv": _kind("ARMAConv"),
    "LEConv": _kind("LEConv"),
    "ClusterGCNConv": _kind("ClusterGCNConv"),
    "GENConv": _kind("GENConv"),
    "PNAConv": _kind("PNAConv", **_PNA),
    "EGConv": _kind("EGConv", num_heads=4),
    "FAConv": _conv(lambda d: pyg.FAConv(d), WIDTH, initial=True),
    "GCN2Conv": _conv(lambda d: pyg.GCN2Conv(d, 0.1), WIDTH, initial=True),
    "SuperGATConv": _kind("SuperGATConv"),
    "TransformerConv": _kind("TransformerConv"),
    "FeaStConv": _kind("FeaStConv"),
    "AGNNConv": _conv(lambda d: pyg.AGNNConv(), WIDTH),
    "MFConv": _kind("MFConv"),
    "ResGatedGraphConv": _kind("ResGatedGraphConv"),
    "GatedGraphConv": _conv(lambda d: pyg.GatedGraphConv(16, 2)),
    "WLConvContinuous": _conv(lambda d: pyg.WLConvContinuous(), WIDTH),
    "FiLMConv": _kind("FiLMConv"),
    "DNAConv": lambda d, c: History(d, c),
    "AntiSymmetricConv": _conv(lambda d: pyg.AntiSymmetricConv(d), WIDTH),
    "GeneralConv": _kind("GeneralConv"),
    "HypergraphConv": _kind("HypergraphConv"),
    "MixHopConv": _conv(lambda d: pyg.MixHopConv(d, 16), 48),
    "PANConv": _kind("PANConv", filter_size=2),
    "DirGNNConv": _conv(lambda d: pyg.DirGNNConv(pyg.SAGEConv(d, 16))),
    "EdgeConv": _conv(lambda d: pyg.EdgeConv(_edge_mlp(d))),
    "CGConv": _conv(lambda d: pyg.CGConv(d), WIDTH),
    "GPSConv": _conv(lambda d: pyg.GPSConv(d, pyg.GCNConv(d, d), heads=2), WIDTH),
}
MODELS: Final[dict[str, Make]] = {
    "GCN": _model("GCN"),
    "GAT": _model("GAT"),
    "GraphSAGE": _model("GraphSAGE"),
    "GIN": _model("GIN"),
    "PNA": _model("PNA", **_PNA),
    "EdgeCNN": _model("EdgeCNN"),
    "GCN, jumping knowledge": _model("GCN", jk="lstm"),
    "GCN, PairNorm": _model("GCN", norm="pair_norm"),
    "GCN, GraphNorm": _model("GCN", norm="graph_norm"),
    "LINKX": lambda d, c: pyg.LINKX(NODES, d, 16, c, 2),
    "GraphUNet": lambda d, c: pyg.GraphUNet(d, 16, c, depth=2),
    "PMLP": lambda d, c: pyg.PMLP(d, 16, c, 2),
    "SGFormer": lambda d, c: WithBatch(pyg.models.SGFormer(d, 16, c)),
}
