"""Modules of two of PyG's layers, and small graphs for them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

FEATURES, CLASSES = 4, 3


class Two(nn.Module):
    """Two layers with an activation between them."""

    def __init__(self, make: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = make(FEATURES, 5), make(5, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


def perceptron(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 5), nn.ReLU(), nn.Linear(5, outputs))


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn": pyg.GCNConv,
    "sage": pyg.SAGEConv,
    "max": lambda i, o: pyg.SAGEConv(i, o, aggr="max"),
    "several": lambda i, o: pyg.SAGEConv(i, o, aggr=["mean", "max", "std"]),
    "softmax": lambda i, o: pyg.SAGEConv(i, o, aggr="softmax"),
    "gin": lambda i, o: pyg.GINConv(perceptron(i, o)),
    "gat": pyg.GATConv,
    "gat2": pyg.GATv2Conv,
    "transformer": pyg.TransformerConv,
    "graph": pyg.GraphConv,
    "le": pyg.LEConv,
    "cluster": pyg.ClusterGCNConv,
    "resgated": pyg.ResGatedGraphConv,
    "mf": lambda i, o: pyg.MFConv(i, o, max_degree=6),
    "sg": lambda i, o: pyg.SGConv(i, o, K=2),
    "tag": lambda i, o: pyg.TAGConv(i, o, K=2),
    "arma": pyg.ARMAConv,
    "general": pyg.GeneralConv,
    "edge": lambda i, o: pyg.EdgeConv(perceptron(2 * i, o)),
    "film": pyg.FiLMConv,
    "super": pyg.SuperGATConv,
    "feast": pyg.FeaStConv,
    "gen": pyg.GENConv,
}


def victim(module: nn.Module) -> Victim:
    module.eval().requires_grad_(False)
    adapter = Adapter(module, "m", detect_convention(module, "forward", "m"))
    return Victim(adapter, CLASSES)


def graph_of(edges: Tensor, num_nodes: int, seed: int) -> Data:
    """The graph of given edges with random features, labelled as it comes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn((num_nodes, FEATURES), generator=generator)
    y = torch.randint(CLASSES, (num_nodes,), generator=generator)
    return Data(x=x, edge_index=edges, y=y)
