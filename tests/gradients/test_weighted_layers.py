"""Edge weights for PyG layers that take none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.utils import coalesce, softmax, to_undirected

from grb_check.gradients.edge_lookup import EdgeLookup
from grb_check.gradients.pair_graph import PairGraph, pair_graph
from grb_check.gradients.weighted_reductions import weighted_reductions

Make = Callable[[], nn.Module]


class Inside(nn.Module):
    """Layers inside a module that does not pass them weights."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x, edge_index))
        return x


class OwnSum(pyg.MessagePassing):
    """A user's layer: messages from both ends, summed."""

    def __init__(self, size: int) -> None:
        super().__init__(aggr="add")
        self.both = nn.Linear(2 * size, size)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x + self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return torch.tanh(self.both(torch.cat([x_i, x_j], dim=1)))


class OwnPlain(pyg.MessagePassing):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)


class OwnAttention(pyg.MessagePassing):
    """The message contains a softmax, and also other exponentials."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor, index: Tensor, size_i: int) -> Tensor:
        return softmax((x_i * x_j).sum(1), index, num_nodes=size_i)[:, None] * x_j


class OwnAggregate(OwnSum):
    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return inputs.new_zeros(dim_size, inputs.shape[1]).index_add(0, index, inputs)


class Rearranges(nn.Module):
    """Sorts its edges and makes them undirected and unique before calling a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pyg.GINConv(nn.Linear(4, 4))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = coalesce(to_undirected(edge_index.flip(1)), num_nodes=x.shape[0])
        return self.layer(x, edges)


class SparseInside(nn.Module):
    """Makes a torch sparse matrix of its edges, for which layers may be fused."""

    def __init__(self, layout: torch.layout, *layers: nn.Module) -> None:
        super().__init__()
        self.inside = Inside(*layers)
        self.layout = layout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        ones = x.new_ones(edge_index.shape[1])
        size = (x.shape[0], x.shape[0])
        matrix = torch.sparse_coo_tensor(
            edge_index.flip(0), ones, size, check_invariants=False
        ).coalesce()
        return self.inside(x, matrix if self.layout == torch.sparse_coo else matrix.to_sparse_csr())


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))


LAYERS: dict[str, Make] = {
    "GCN": lambda: Inside(pyg.GCNConv(4, 4), pyg.GCNConv(4, 3)),
    "GraphConv mean": lambda: Inside(pyg.GraphConv(4, 4, aggr="mean")),
    "APPNP": lambda: Inside(pyg.APPNP(3, 0.1)),
    "SGC": lambda: Inside(pyg.SGConv(4, 3, K=2)),
    "ARMA": lambda: Inside(pyg.ARMAConv(4, 3, num_layers=2)),
    "TAG": lambda: Inside(pyg.TAGConv(4, 3)),
    "GAT": lambda: Inside(pyg.GATConv(4, 2, heads=2), pyg.GATConv(4, 3)),
    "GAT without loops": lambda: Inside(pyg.GATConv(4, 3, add_self_loops=False)),
    "GATv2": lambda: Inside(pyg.GATv2Conv(4, 2, heads=2), pyg.GATv2Conv(4, 3)),
    "Transformer": lambda: Inside(pyg.TransformerConv(4, 2, heads=2)),
    "SuperGAT": lambda: Inside(pyg.SuperGATConv(4, 2, heads=2)),
    "GEN": lambda: Inside(pyg.GENConv(4, 3)),
    "GIN": lambda: Inside(pyg.GINConv(mlp()), pyg.GINConv(mlp())),
    "GIN of PyG": lambda: pyg.models.GIN(4, 6, 2, 3),
    "SAGE mean": lambda: Inside(pyg.SAGEConv(4, 4), pyg.SAGEConv(4, 3)),
    "SAGE max": lambda: Inside(pyg.SAGEConv(4, 4, aggr="max"), pyg.SAGEConv(4, 3, aggr="max")),
    "SAGE min": lambda: Inside(pyg.SAGEConv(4, 4, aggr="min")),
    "SAGE product": lambda: Inside(pyg.SAGEConv(4, 4, aggr="mul")),
    "GraphConv": lambda: Inside(pyg.GraphConv(4, 3)),
    "GraphConv max": lambda: Inside(pyg.GraphConv(4, 3, aggr="max")),
    "against the flow": lambda: Inside(pyg.SAGEConv(4, 3, flow="target_to_source")),
    "decomposed": lambda: Inside(OwnPlain("mean", decomposed_layers=2)),
    "own sum": lambda: Inside(OwnSum(4)),
    "own attention": lambda: Inside(OwnAttention()),
    "own aggregate": lambda: Inside(OwnAggregate(4)),
    "rearranged": Rearranges,
    "CSR inside": lambda: SparseInside(
        torch.sparse_csr, pyg.GCNConv(4, 4), pyg.GATConv(4, 4), pyg.SAGEConv(4, 3)
    ),
    "COO inside": lambda: SparseInside(torch.sparse_coo, pyg.GCNConv(4, 4), pyg.GINConv(mlp())),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def double(make: Make) -> nn.Module:
    torch.manual_seed(0)
    return make().double().eval().requires_grad_(False)


def small_graph() -> tuple[Tensor, PairGraph]:
    """Nine nodes, the last one isolated; all but a few pairs have weights."""
    torch.manual_seed(1)
    x = torch.randn(9, 4, dtype=torch.float64)
    every = torch.triu_indices(8, 8, 1)
    chosen = torch.rand(every.shape[1]) < 0.4
    ring = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])
    edges = coalesce(to_undirected(torch.cat([every[:, chosen], ring], dim=1)))
    return x, pair_graph(edges, torch.cat([every[:, ::2], torch.tensor([[0, 3], [8, 8]])], 1), 9)


def masked(module: nn.Module, x: Tensor, graph: PairGraph, weights: Tensor) -> Tensor:
    edges = EdgeLookup(graph.edge_index, x.shape[0])
    with weighted_reductions(module, edges, graph.weights(weights)):
        return module(x, graph.edge_index)


@every_layer
def test_weights_of_1_and_0_are_edges_and_none(make: Make) -> None:
    """Equal to the module on the graph: the clean one, with other pairs, and without any."""
    module = double(make)
    x, graph = small_graph()
    random = torch.rand(graph.present.shape) < 0.5
    for chosen in (graph.present, random, torch.zeros_like(random), torch.ones_like(random)):
        actual = masked(module, x, graph, chosen.double())
        torch.testing.assert_close(actual, module(x, graph.real_edges(chosen)))


@every_layer
def test_gradient_is_that_of_a_finite_difference(make: Make) -> None:
    """For every weight, between 0 and 1."""
    module = double(make)
    x, graph = small_graph()
    torch.manual_seed(2)
    weights = (0.1 + 0.8 * torch.rand(graph.present.shape, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda given: masked(module, x, graph, given), (weights,), check_undefined_grad=False
    )


@settings(deadline=None, max_examples=40)
@given(
    graph=graphs(),
    kind=st.sampled_from(["GAT", "GIN", "SAGE mean", "SAGE max", "TAG", "own attention"]),
    data=st.data(),
)
def test_any_graph_with_any_edges(graph, kind: str, data: st.DataObject) -> None:
    """Including isolated nodes and complete graphs: logits of the real graph, finite gradients."""
    module = double(LAYERS[kind])
    x = torch.nn.functional.pad(graph.x, (0, 4 - graph.x.shape[1])).double()
    every = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    selected = data.draw(st.lists(st.booleans(), min_size=every.shape[1], max_size=every.shape[1]))
    pairs = every[:, torch.tensor(selected, dtype=torch.bool)]
    weighted = pair_graph(graph.edge_index, pairs, graph.num_nodes)
    count = pairs.shape[1]
    chosen = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    real = torch.tensor(chosen, dtype=torch.bool)
    weights = real.double().requires_grad_()
    actual = masked(module, x, weighted, weights)
    torch.testing.assert_close(actual, module(x, weighted.real_edges(real)))
    if actual.requires_grad:
        assert torch.isfinite(torch.autograd.grad(actual.sum(), weights)[0]).all()
