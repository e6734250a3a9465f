"""Which of PyG's layers, aggregations and models have edge gradients: the one list of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.utils import add_self_loops, sort_edge_index, to_dense_adj

from grb_check.gradients.edge_weights import first_valid_weighting
from grb_check.gradients.weight_trial import Weighting
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

Make = Callable[[], nn.Module]
GRAPH = community_dataset().graph
CLASSES = 3
DEGREES = torch.tensor([1, 5, 20, 30, 20, 10, 5, 2])


class Called(nn.Module):
    """A layer that is called in its own way."""

    def __init__(self, layer: nn.Module, call: Callable[..., Tensor], width: int = 8) -> None:
        super().__init__()
        self.layer = layer
        self.call = call
        self.last = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(torch.tanh(self.call(self.layer, x, edge_index)))


def plain(layer: nn.Module, width: int = 8) -> nn.Module:
    """Return a model that calls a layer as `(x, edge_index)`."""
    return Called(layer, lambda layer, x, edges: layer(x, edges), width)


def sorted_edges(layer: nn.Module, width: int = 8) -> nn.Module:
    """Return a model that sorts its edges by their ends first."""

    def call(layer: nn.Module, x: Tensor, edges: Tensor) -> Tensor:
        return layer(x, sort_edge_index(edges, num_nodes=x.shape[0], sort_by_row=False))

    return Called(layer, call, width)


def looped(layer: nn.Module) -> nn.Module:
    """Return a model that adds self-loops, so that no node is without a neighbour."""
    return Called(layer, lambda layer, x, e: layer(x, add_self_loops(e, num_nodes=len(x))[0]))


def sage(aggr: Any) -> nn.Module:
    return plain(pyg.SAGEConv(8, 8, aggr=aggr))


def pna(aggregations: list[str], scalers: list[str], **settings: Any) -> nn.Module:
    return plain(pyg.PNAConv(8, 8, aggregations, scalers, DEGREES, **settings))


def mlp(inside: int = 8, outside: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(inside, 8), nn.ReLU(), nn.Linear(8, outside))


SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
LAYERS: dict[str, Make] = {
    "AGNNConv": lambda: plain(pyg.AGNNConv()),
    "AntiSymmetricConv": lambda: plain(pyg.AntiSymmetricConv(8)),
    "APPNP": lambda: plain(pyg.APPNP(3, 0.1)),
    "ARMAConv": lambda: plain(pyg.ARMAConv(8, 8)),
    "CGConv": lambda: plain(pyg.CGConv(8)),
    "ChebConv": lambda: plain(pyg.ChebConv(8, 8, 3)),
    "ClusterGCNConv": lambda: plain(pyg.ClusterGCNConv(8, 8, diag_lambda=0.5)),
    "DirGNNConv": lambda: plain(pyg.DirGNNConv(pyg.SAGEConv(8, 8))),
    "DNAConv": lambda: Called(pyg.DNAConv(8), lambda layer, x, e: layer(torch.stack([x, x], 1), e)),
    "EdgeConv": lambda: plain(pyg.EdgeConv(mlp(16))),
    "EGConv": lambda: plain(pyg.EGConv(8, 8, ["sum", "mean", "max", "min", "symnorm"])),
    "EGConv var": lambda: plain(pyg.EGConv(8, 8, ["var", "std"])),
    "FAConv": lambda: Called(pyg.FAConv(8), lambda layer, x, e: layer(x, x, e)),
    "FeaStConv": lambda: plain(pyg.FeaStConv(8, 8, heads=2)),
    "FiLMConv": lambda: plain(pyg.FiLMConv(8, 8)),
    "GATConv": lambda: plain(pyg.GATConv(8, 8)),
    "GATv2Conv": lambda: plain(pyg.GATv2Conv(8, 8)),
    "GatedGraphConv": lambda: plain(pyg.GatedGraphConv(8, 2)),
    "GCN2Conv": lambda: Called(pyg.GCN2Conv(8, 0.1), lambda layer, x, e: layer(x, x, e)),
    "GCNConv": lambda: plain(pyg.GCNConv(8, 8)),
    "GENConv softmax": lambda: plain(pyg.GENConv(8, 8)),
    "GENConv power": lambda: plain(pyg.GENConv(8, 8, "powermean", p=2.0)),
    "GENConv several": lambda: plain(pyg.GENConv(8, 8, ["softmax", "std", "max"], msg_norm=True)),
    "GeneralConv": lambda: plain(pyg.GeneralConv(8, 8)),
    "GeneralConv attention": lambda: plain(
        pyg.GeneralConv(8, 8, attention=True, heads=2, l2_normalize=True)
    ),
    "GeneralConv several": lambda: plain(pyg.GeneralConv(8, 8, aggr="max", directed_msg=False)),
    "GINConv": lambda: plain(pyg.GINConv(mlp())),
    "GINConv std": lambda: plain(pyg.GINConv(mlp(), aggr="std")),
    "GMMConv": lambda: Called(
        pyg.GMMConv(8, 8, 2, 2), lambda layer, x, e: layer(x, e, (x[e[0]] - x[e[1]])[:, :2])
    ),
    "GPSConv": lambda: plain(pyg.GPSConv(8, pyg.GINConv(mlp()), heads=2)),
    "GraphConv": lambda: plain(pyg.GraphConv(8, 8)),
    "LEConv": lambda: plain(pyg.LEConv(8, 8)),
    "LGConv": lambda: plain(pyg.LGConv()),
    "MFConv": lambda: plain(pyg.MFConv(8, 8)),
    "MixHopConv": lambda: plain(pyg.MixHopConv(8, 8), 24),
    "NNConv": lambda: Called(
        pyg.NNConv(8, 8, nn.Linear(8, 64)), lambda layer, x, e: layer(x, e, x[e[0]] - x[e[1]])
    ),
    "PDNConv": lambda: Called(
        pyg.PDNConv(8, 8, 8, 8), lambda layer, x, e: layer(x, e, x[e[0]] * x[e[1]])
    ),
    "PNAConv": lambda: pna(["mean", "min", "max", "std"], SCALERS),
    "PNAConv towers": lambda: pna(["sum", "var"], SCALERS, towers=2, divide_input=True),
    "PNAConv trained": lambda: pna(["mean"], SCALERS, train_norm=True),
    "PointNetConv": lambda: Called(
        pyg.PointNetConv(mlp(10)), lambda layer, x, e: layer(x, x[:, :2], e)
    ),
    "PointTransformerConv": lambda: Called(
        pyg.PointTransformerConv(8, 8), lambda layer, x, e: layer(x, x[:, :3], e)
    ),
    "ResGatedGraphConv": lambda: plain(pyg.ResGatedGraphConv(8, 8)),
    "RGCNConv": lambda: Called(
        pyg.RGCNConv(8, 8, 2), lambda layer, x, e: layer(x, e, (x[e[0], 0] > 0).long())
    ),
    "RGATConv": lambda: Called(
        pyg.RGATConv(8, 8, 2), lambda layer, x, e: layer(x, e, (x[e[0], 0] > 0).long())
    ),
    "SAGEConv": lambda: plain(pyg.SAGEConv(8, 8)),
    "SGConv": lambda: plain(pyg.SGConv(8, 8, 2)),
    "SignedConv": lambda: Called(
        pyg.SignedConv(8, 4, first_aggr=True), lambda layer, x, e: layer(x, e, e.flip(0))
    ),
    "SimpleConv": lambda: plain(pyg.SimpleConv(combine_root="self_loop")),
    "SSGConv": lambda: plain(pyg.SSGConv(8, 8, 0.1, 2)),
    "SuperGATConv": lambda: plain(pyg.SuperGATConv(8, 8)),
    "TAGConv": lambda: plain(pyg.TAGConv(8, 8)),
    "TransformerConv": lambda: plain(pyg.TransformerConv(8, 8)),
    "WLConvContinuous": lambda: plain(pyg.WLConvContinuous()),
}
AGGREGATIONS: dict[str, Make] = {
    "several": lambda: sage(["mean", "std", "max"]),
    "several, one sorted": lambda: plain(pyg.SimpleConv(["sum", "softmax", "var", "min"]), 32),
    "several, projected": lambda: sage(
        pyg.MultiAggregation(
            ["mean", "max"], mode="proj", mode_kwargs={"in_channels": 8, "out_channels": 8}
        )
    ),
    "several, attended": lambda: sage(
        pyg.MultiAggregation(
            ["mean", "std"],
            mode="attn",
            mode_kwargs={"in_channels": 8, "out_channels": 8, "num_heads": 2},
        )
    ),
    "std": lambda: sage("std"),
    "var": lambda: sage("var"),
    "product": lambda: sage("mul"),
    "softmax": lambda: sage(pyg.SoftmaxAggregation(learn=True)),
    "softmax with others": lambda: sage(["softmax", "max"]),
    "power mean": lambda: sage(pyg.PowerMeanAggregation(2.0)),
    "median": lambda: looped(pyg.SAGEConv(8, 8, aggr="median")),
    "quantile": lambda: looped(pyg.SAGEConv(8, 8, aggr=pyg.QuantileAggregation(0.3))),
    "quantiles": lambda: Called(
        pyg.SimpleConv(pyg.QuantileAggregation([0.1, 0.8], interpolation="midpoint")),
        lambda layer, x, e: layer(x, add_self_loops(e, num_nodes=len(x))[0]),
        16,
    ),
    "nearest quantile": lambda: looped(
        pyg.SAGEConv(8, 8, aggr=pyg.QuantileAggregation(0.5, interpolation="nearest"))
    ),
    "higher quantile": lambda: looped(
        pyg.SAGEConv(8, 8, aggr=pyg.QuantileAggregation(0.6, interpolation="higher"))
    ),
    "sort": lambda: sorted_edges(pyg.SimpleConv(pyg.SortAggregation(3)), 24),
    "LSTM": lambda: sorted_edges(pyg.SAGEConv(8, 8, aggr="lstm")),
    "GRU": lambda: sorted_edges(pyg.SimpleConv(pyg.GRUAggregation(8, 8, num_layers=2))),
    "Set2Set": lambda: sorted_edges(pyg.SimpleConv(pyg.Set2Set(8, 2)), 16),
    "attention": lambda: sage(pyg.AttentionalAggregation(nn.Linear(8, 1))),
    "deep sets": lambda: sage(pyg.DeepSetsAggregation(mlp(), mlp())),
    "variance preserving": lambda: sage(pyg.VariancePreservingAggregation()),
    "scaled by degrees": lambda: plain(
        pyg.SimpleConv(pyg.DegreeScalerAggregation(["mean", "std"], SCALERS, DEGREES)), 80
    ),
    "equilibrium": lambda: sage(pyg.EquilibriumAggregation(8, 8, [8], grad_iter=2)),
}


class Linkx(nn.Module):
    """LINKX multiplies the adjacency with a matrix that has a row for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = pyg.LINKX(GRAPH.num_nodes, 8, 8, CLASSES, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.inner(x, edge_index)


class Dense(nn.Module):
    """A matrix made by `to_dense_adj`, normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pyg.DenseGCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, to_dense_adj(edge_index, max_num_nodes=len(x)))[0]


class DenseByHand(nn.Module):
    """Entries of a matrix that are set to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        matrix = torch.eye(len(x))
        matrix[edge_index[0], edge_index[1]] = 1.0
        return self.layer(matrix @ x / matrix.sum(1, keepdim=True))


class SparseProduct(nn.Module):
    """A sparse matrix made of the edges, without a layer of PyG."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        ones = torch.ones(edge_index.shape[1])
        matrix = torch.sparse_coo_tensor(edge_index, ones, (len(x), len(x)))
        degrees = torch.sparse.sum(matrix, 1).to_dense()[:, None] + 1
        return self.layer(x + torch.sparse.mm(matrix, x) / degrees)


MODELS: dict[str, Make] = {
    "GCN": lambda: pyg.GCN(8, 8, 2, CLASSES),
    "GraphSAGE": lambda: pyg.GraphSAGE(8, 8, 2, CLASSES),
    "GIN": lambda: pyg.GIN(8, 8, 2, CLASSES),
    "GAT": lambda: pyg.GAT(8, 8, 2, CLASSES),
    "PNA": lambda: pyg.PNA(
        8, 8, 2, CLASSES, aggregators=["mean", "max"], scalers=SCALERS, deg=DEGREES
    ),
    "EdgeCNN": lambda: pyg.EdgeCNN(8, 8, 2, CLASSES),
    "SGFormer": lambda: pyg.SGFormer(8, 8, CLASSES),
    "Polynormer": lambda: pyg.Polynormer(8, 8, CLASSES),
    "GraphUNet": lambda: pyg.GraphUNet(8, 8, CLASSES, 1),
    "PMLP": lambda: pyg.PMLP(8, 8, CLASSES, 2),
    "LINKX": Linkx,
    "dense": Dense,
    "dense by hand": DenseByHand,
    "sparse": SparseProduct,
    "DeepGCN": lambda: plain(
        pyg.DeepGCNLayer(pyg.GENConv(8, 8, "std"), nn.LayerNorm(8), nn.ReLU())
    ),
}

# They lay the messages of each node into a padded matrix and read all of it, so that a message of
# weight 0 is still a row of it.
WITHOUT: dict[str, Make] = {
    "MLPAggregation": lambda: sorted_edges(
        pyg.SimpleConv(pyg.MLPAggregation(8, 8, 60, hidden_channels=8, num_layers=2))
    ),
    "SetTransformerAggregation": lambda: sorted_edges(
        pyg.SimpleConv(pyg.SetTransformerAggregation(8, heads=2))
    ),
    "GraphMultisetTransformer": lambda: sorted_edges(
        pyg.SimpleConv(pyg.GraphMultisetTransformer(8, 3, heads=2))
    ),
    "LCMAggregation": lambda: sorted_edges(pyg.SimpleConv(pyg.LCMAggregation(8, 8))),
    "PatchTransformerAggregation": lambda: sorted_edges(
        pyg.SimpleConv(pyg.PatchTransformerAggregation(8, 8, 4, 8, 1, heads=2))
    ),
}
WITH = {**LAYERS, **AGGREGATIONS, **MODELS}


def weighting(make: Make) -> Weighting | None:
    """Return the first weighting of a model's edges that passes the trial."""
    torch.manual_seed(0)
    module = make().eval().requires_grad_(False)
    adapter = Adapter(module, "m", detect_convention(module, "forward", "m"))
    forth = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]][:, ::3]
    # To the isolated node 0, and between nodes of 40 and more that are far apart.
    new = torch.stack([torch.arange(0, 40), torch.arange(70, 110)])
    codes = GRAPH.edge_index[0] * GRAPH.num_nodes + GRAPH.edge_index[1]
    new = new[:, ~torch.isin(new[0] * GRAPH.num_nodes + new[1], codes)]
    return first_valid_weighting(adapter, GRAPH.x, GRAPH.edge_index, torch.cat([forth, new], 1))


@pytest.mark.parametrize("make", WITH.values(), ids=WITH)
def test_layers_with_edge_gradients(make: Make) -> None:
    """They reproduce the module on the real edges, and their weights have a gradient."""
    assert weighting(make) is not None


@pytest.mark.parametrize("make", WITHOUT.values(), ids=WITHOUT)
def test_layers_without_edge_gradients(make: Make) -> None:
    """The explanation of the diagnostic names each."""
    assert weighting(make) is None


def test_the_page_names_all_that_have_none() -> None:
    """And no other aggregation of PyG."""
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "diagnostics.md").read_text()
    listed = re.findall(r"`(\w+(?:Aggregation|Transformer))`", page)
    assert set(listed) == set(WITHOUT)
