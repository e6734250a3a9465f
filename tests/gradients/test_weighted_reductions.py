"""Edge weights in every reduction over edges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from attacked_graphs import compare
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.utils import add_self_loops, scatter, softmax, sort_edge_index, to_undirected

from grb_check.gradients.edge_lookup import EdgeLookup
from grb_check.gradients.pair_graph import PairGraph, pair_graph
from grb_check.gradients.sparse_sums import SparseSums
from grb_check.gradients.weighted_reductions import weighted_reductions

Forward = Callable[[Tensor, Tensor], Tensor]
DEGREES = torch.tensor([2, 3, 4, 3, 2])
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]


class Reduces(nn.Module):
    """Reduces messages, the values at both ends of an edge, by an aggregation."""

    def __init__(self, reduce: Callable[[Tensor, Tensor, int], Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.reduce = reduce
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.reduce(x[edge_index[0]], edge_index[1], x.shape[0])


def by(aggregation: nn.Module) -> nn.Module:
    return Reduces(lambda m, index, size: aggregation(m, index, dim_size=size), aggregation)


class Rearranged(nn.Module):
    """Changes its edges before it calls a layer."""

    def __init__(self, change: Forward, layer: nn.Module) -> None:
        super().__init__()
        self.change = change
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, self.change(x, edge_index))


def looped(aggregation: nn.Module) -> nn.Module:
    """PyG's quantiles fail if the first node has no neighbour."""
    return Rearranged(lambda x, e: add_self_loops(e, num_nodes=len(x))[0], by(aggregation))


def ordered(aggregation: nn.Module) -> nn.Module:
    return Rearranged(
        lambda x, e: sort_edge_index(e, num_nodes=len(x), sort_by_row=False), by(aggregation)
    )


def maximum_of_users(m: Tensor, index: Tensor, size: int) -> Tensor:
    lowest = m.new_full((size, m.shape[1]), -9.0)
    return lowest.scatter_reduce(0, index[:, None].expand_as(m), m, "amax")


def softmax_of_users(m: Tensor, index: Tensor, size: int) -> Tensor:
    shares = m.exp()
    total = torch.zeros(size, m.shape[1], dtype=m.dtype).index_add(0, index, shares)
    return torch.zeros_like(total).index_add_(0, index, m * shares / (total + 1e-16)[index])


SMOOTH: dict[str, Callable[[], nn.Module]] = {
    "mean": lambda: by(pyg.MeanAggregation()),
    "var": lambda: by(pyg.VarAggregation()),
    "std": lambda: by(pyg.StdAggregation()),
    "max": lambda: by(pyg.MaxAggregation()),
    "min": lambda: by(pyg.MinAggregation()),
    "product": lambda: by(pyg.MulAggregation()),
    "softmax": lambda: by(pyg.SoftmaxAggregation(2.0)),
    "power mean": lambda: by(pyg.PowerMeanAggregation(2.0)),
    "several": lambda: by(pyg.MultiAggregation(["mean", "std", "max", "sum", "var", "min"])),
    "scaled": lambda: by(pyg.DegreeScalerAggregation(["mean", "std"], SCALERS, DEGREES)),
    "quantile": lambda: looped(pyg.QuantileAggregation(0.3)),
    "quantiles": lambda: looped(pyg.QuantileAggregation([0.2, 0.5])),
    "sort": lambda: ordered(pyg.SortAggregation(3)),
    "LSTM": lambda: ordered(pyg.LSTMAggregation(4, 3)),
    "LSTM of two layers": lambda: ordered(pyg.LSTMAggregation(4, 3, num_layers=2, proj_size=2)),
    "GRU": lambda: ordered(pyg.GRUAggregation(4, 3)),
    "attention": lambda: by(pyg.AttentionalAggregation(nn.Linear(4, 1))),
    "variance preserving": lambda: by(pyg.VariancePreservingAggregation()),
    "EGConv": lambda: pyg.EGConv(4, 4, ["sum", "max", "symnorm", "std"], num_heads=2),
    "PNAConv": lambda: pyg.PNAConv(4, 4, ["mean", "max", "std"], SCALERS, DEGREES),
    "maximum of users": lambda: Reduces(maximum_of_users),
    "softmax of users": lambda: Reduces(softmax_of_users),
    "GAT": lambda: pyg.GATConv(4, 4, heads=2),
    "transposed edges": lambda: Rearranged(
        lambda x, e: e.T.contiguous().T, pyg.SAGEConv(4, 4, aggr="std")
    ),
    "edges of both directions": lambda: Rearranged(
        lambda x, e: to_undirected(e[:, e[0] < e[1]]), pyg.SAGEConv(4, 4, aggr="var")
    ),
}
# Some are of a precision, or of values, that a finite difference does not show.
ROUNDED: dict[str, Callable[[], nn.Module]] = {
    "ClusterGCNConv": lambda: pyg.ClusterGCNConv(4, 4, diag_lambda=0.5),
    "MFConv": lambda: pyg.MFConv(4, 4),
    "median": lambda: looped(pyg.MedianAggregation()),
    "lower": lambda: looped(pyg.QuantileAggregation(0.7, interpolation="lower")),
    "higher": lambda: looped(pyg.QuantileAggregation(0.7, interpolation="higher")),
    "nearest": lambda: looped(pyg.QuantileAggregation(0.5, interpolation="nearest")),
    "midpoint": lambda: looped(pyg.QuantileAggregation([0.5, 0.3], interpolation="midpoint")),
}
EVERY = {**SMOOTH, **ROUNDED}
SUMMED: dict[str, Callable[[], nn.Module]] = {
    "SAGE": lambda: pyg.SAGEConv(4, 4),
    "GIN": lambda: pyg.GINConv(nn.Linear(4, 4)),
    "GCN": lambda: pyg.GCNConv(4, 4),
    "TAG": lambda: pyg.TAGConv(4, 4),
    "APPNP": lambda: pyg.APPNP(3, 0.1),
    "sum of other edges": lambda: Rearranged(lambda x, e: e.flip(1), pyg.GraphConv(4, 4)),
}


def double(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().double().eval().requires_grad_(False)


def weighted(module: nn.Module, x: Tensor, graph: PairGraph, weights: Tensor) -> Tensor:
    with weighted_reductions(module, EdgeLookup(graph.edge_index, len(x)), graph.weights(weights)):
        return module(x, graph.edge_index)


def summed(module: nn.Module, x: Tensor, graph: PairGraph, weights: Tensor) -> Tensor:
    """The same where products take the place of sums."""
    sums = SparseSums.of(module, x.device)
    assert sums is not None
    edges = EdgeLookup(graph.edge_index, len(x))
    with weighted_reductions(module, edges, graph.weights(weights), sums=sums):
        return module(x, graph.edge_index)


def small_graph() -> tuple[Tensor, PairGraph]:
    """Seven nodes, node 5 isolated; twelve pairs have weights."""
    torch.manual_seed(1)
    x = torch.randn(7, 4, dtype=torch.float64)
    edges = torch.tensor([[0, 0, 1, 2, 3, 4, 2], [1, 2, 2, 3, 4, 6, 6]])
    pairs = torch.tensor([[0, 0, 1, 2, 3, 0, 1, 5, 2, 4], [1, 3, 4, 3, 6, 6, 6, 6, 5, 6]])
    return x, pair_graph(torch.cat([edges, edges.flip(0)], dim=1), pairs, 7)


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_weights_of_1_and_0_are_edges_and_none(make: Callable[[], nn.Module]) -> None:
    """For the clean graph, for other edges, and without those that have weights."""
    module = double(make)
    x, graph = small_graph()
    chosen = torch.rand(graph.present.shape) < 0.5
    for mask in (graph.present, chosen, ~chosen, torch.zeros_like(chosen)):
        torch.testing.assert_close(
            weighted(module, x, graph, mask.double()), module(x, graph.real_edges(mask))
        )


@pytest.mark.parametrize("make", SMOOTH.values(), ids=SMOOTH)
def test_gradient_is_that_of_a_finite_difference(make: Callable[[], nn.Module]) -> None:
    """For every weight, between 0 and 1."""
    module = double(make)
    x, graph = small_graph()
    torch.manual_seed(2)
    weights = (0.1 + 0.8 * torch.rand(graph.present.shape, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda given: weighted(module, x, graph, given), (weights,), check_undefined_grad=False
    )


@settings(deadline=None, max_examples=60)
@given(graph=graphs(), kind=st.sampled_from(sorted(EVERY)), data=st.data())
def test_any_graph_with_any_edges(graph, kind: str, data: st.DataObject) -> None:
    """Including isolated nodes and complete graphs: output of the real graph, finite gradients."""
    module = double(EVERY[kind])
    x = torch.nn.functional.pad(graph.x, (0, 4 - graph.x.shape[1])).double()
    # No two messages are equal: their order is undefined.
    x = x + torch.linspace(0, 1, x.numel(), dtype=x.dtype).view_as(x)
    every = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    selected = data.draw(st.lists(st.booleans(), min_size=every.shape[1], max_size=every.shape[1]))
    pairs = every[:, torch.tensor(selected, dtype=torch.bool)]
    of_pairs = pair_graph(graph.edge_index, pairs, graph.num_nodes)
    count = pairs.shape[1]
    chosen = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    real = torch.tensor(chosen, dtype=torch.bool)
    if kind not in ("EGConv", "ClusterGCNConv") and not of_pairs.real_edges(real).numel():
        return  # some aggregations of PyG fail without any edge
    weights = real.double().requires_grad_()
    actual = weighted(module, x, of_pairs, weights)
    torch.testing.assert_close(actual, module(x, of_pairs.real_edges(real)))
    if actual.requires_grad:
        assert torch.isfinite(torch.autograd.grad(actual.sum(), weights)[0]).all()


@pytest.mark.parametrize("make", SUMMED.values(), ids=SUMMED)
def test_products_are_weighted_sums(make: Callable[[], nn.Module]) -> None:
    """For weights between 0 and 1, and where all edges of a node are absent."""
    module = double(make)
    x, graph = small_graph()
    torch.manual_seed(2)
    some = torch.rand(graph.present.shape, dtype=torch.float64)
    for values in (graph.present.double(), some, torch.zeros_like(some)):
        weights = values.requires_grad_()
        actual, expected = (way(module, x, graph, weights) for way in (summed, weighted))
        compare(actual, expected, weights)


def test_a_module_is_left_as_it_was() -> None:
    """Also after an exception."""
    module = double(lambda: nn.ModuleList([make() for make in (EVERY | SUMMED).values()]))
    states = [{**vars(part)} for part in module.modules()]
    _, graph = small_graph()
    edges, weights = EdgeLookup(graph.edge_index, 7), graph.weights(graph.present.double())
    sums = SparseSums.of(module, weights.device)
    with pytest.raises(ZeroDivisionError), weighted_reductions(module, edges, weights, sums=sums):
        raise ZeroDivisionError
    for part, state in zip(module.modules(), states, strict=True):
        assert vars(part) == state


def test_edges_outside_the_graph_have_no_weights() -> None:
    """A reduction over other pairs is that of the module."""
    x, graph = small_graph()
    others = torch.tensor([[0, 1], [5, 5]])
    module = Rearranged(lambda x, e: others, by(pyg.SumAggregation()))
    output = weighted(module, x, graph, graph.present.double())
    torch.testing.assert_close(output, module(x, others))


def test_logits_far_apart_do_not_overflow() -> None:
    """The maximum that a softmax subtracts is that of all edges."""
    x, graph = small_graph()
    module = Reduces(lambda m, i, n: scatter(softmax(1e4 * m, i, num_nodes=n), i, 0, n))
    weights = graph.present.double().requires_grad_()
    output = weighted(module, x, graph, weights)
    assert torch.isfinite(output).all()
    assert torch.isfinite(torch.autograd.grad(output.sum(), weights)[0]).all()


class Pooled(nn.Module):
    """The sum over all nodes of a sum over neighbours."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        sums = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        return torch.zeros_like(x[:1]).index_add(0, torch.zeros(len(x), dtype=torch.int64), sums)


def test_nodes_are_not_edges_if_there_are_as_many() -> None:
    """Six nodes and six edges: the index of the nodes' graphs is as long as that of the edges."""
    x = torch.randn(6, 4, dtype=torch.float64)
    graph = pair_graph(
        torch.empty(2, 0, dtype=torch.int64), torch.tensor([[0, 1, 2], [1, 2, 3]]), 6
    )
    weights = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    actual = weighted(Pooled(), x, graph, weights)
    torch.testing.assert_close(actual, Pooled()(x, graph.real_edges(weights > 0)))


class Readout(nn.Module):
    """The mean over all nodes of a mean over neighbours, by positions instead of an index."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mean = pyg.SAGEConv(4, 4), pyg.MeanAggregation()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.mean(self.layer(x, edge_index), ptr=torch.tensor([0, len(x)]))


def test_a_readout_by_positions_has_no_weights() -> None:
    module = double(Readout)
    x, graph = small_graph()
    for chosen in (graph.present, ~graph.present):
        torch.testing.assert_close(
            weighted(module, x, graph, chosen.double()), module(x, graph.real_edges(chosen))
        )
