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

from grb_check.errors import GradientError
from grb_check.gradients.edge_weights import PairGraph, pair_graph
from grb_check.gradients.message_masks import Edges, message_masks

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


class TakesWeights(pyg.MessagePassing):
    """It takes weights besides edges, and computes degrees from them."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        degree = x.new_ones(x.shape[0]).index_add(0, edge_index[1], edge_weight)
        return self.propagate(edge_index, x=x, weight=edge_weight) / degree[:, None]

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight[:, None] * x_j


class HandsOnes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = TakesWeights()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index, x.new_full((edge_index.shape[1],), 0.5))


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
    edges = Edges(graph.edge_index, x.shape[0])
    with message_masks(module, edges, graph.weights(weights)):
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


@every_layer
def test_a_module_is_left_as_it_was(make: Make) -> None:
    """No hook is left, and a call gives the same bits, also after an exception."""
    module = double(make)
    x, graph = small_graph()
    before = module(x, graph.edge_index)
    states = [{**vars(part)} for part in module.modules()]
    edges = Edges(graph.edge_index, 9)
    weights = graph.weights(graph.present.double())
    with message_masks(module, edges, weights):
        module(x, graph.edge_index)
    with pytest.raises(ZeroDivisionError), message_masks(module, edges, weights):
        raise ZeroDivisionError(module(x, graph.edge_index))
    assert torch.equal(module(x, graph.edge_index), before)
    for part, state in zip(module.modules(), states, strict=True):
        assert vars(part).keys() == state.keys()
        assert all(vars(part)[name] is value for name, value in state.items())
        assert not any(value for name, value in vars(part).items() if "_hooks" in name)


def test_weights_that_a_layer_is_handed_are_multiplied() -> None:
    """A module's own weights of 0.5 are kept for present edges."""
    module = double(HandsOnes)
    x, graph = small_graph()
    chosen = torch.rand(graph.present.shape) < 0.5
    actual = masked(module, x, graph, chosen.double())
    torch.testing.assert_close(actual, module(x, graph.real_edges(chosen)))


@pytest.mark.parametrize("kind", ["GAT without loops", "SAGE mean", "own attention", "SAGE max"])
def test_the_first_neighbour_of_a_node_has_a_finite_gradient(kind: str) -> None:
    """Normalised weights are discontinuous there; the gradient is that of the message."""
    module = double(LAYERS[kind])
    x, graph = small_graph()
    weights = graph.present.double().requires_grad_()
    logits = masked(module, x, graph, weights)
    (gradient,) = torch.autograd.grad(logits[8].sum(), weights)
    to_the_isolated = (graph.edge_index[:, -weights.numel() :] == 8).any(dim=0)
    assert gradient[to_the_isolated].all()
    assert gradient.abs().max() < 10


@pytest.mark.parametrize("aggr", ["max", "min"])
def test_a_neighbour_that_would_be_the_maximum_has_a_gradient_before_it_is_there(aggr: str) -> None:
    """Equal to what it would add."""
    x = torch.tensor([[0.0], [1.0], [5.0], [-5.0]], dtype=torch.float64)
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = pair_graph(edges, torch.tensor([[0, 0], [2, 3]]), 4)
    weights = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    module = pyg.SimpleConv(aggr)
    output = masked(module, x, graph, weights)
    (gradient,) = torch.autograd.grad(output[0].sum(), weights)
    torch.testing.assert_close(
        gradient, torch.tensor([4.0, 0.0] if aggr == "max" else [0.0, -6.0], dtype=torch.float64)
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
    kept = data.draw(st.lists(st.booleans(), min_size=every.shape[1], max_size=every.shape[1]))
    pairs = every[:, torch.tensor(kept, dtype=torch.bool)]
    weighted = pair_graph(graph.edge_index, pairs, graph.num_nodes)
    count = pairs.shape[1]
    chosen = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    real = torch.tensor(chosen, dtype=torch.bool)
    weights = real.double().requires_grad_()
    actual = masked(module, x, weighted, weights)
    torch.testing.assert_close(actual, module(x, weighted.real_edges(real)))
    if actual.requires_grad:
        assert torch.isfinite(torch.autograd.grad(actual.sum(), weights)[0]).all()


class OtherEdges(Inside):
    """Passes messages over two hops."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, torch.tensor([[0, 1], [1, 7]]))


class OtherNodes(Inside):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(torch.cat([x, x]), edge_index + x.shape[0])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Inside(pyg.GCNConv(4, 3, cached=True)), "GCNConv has cached=True"),
        (lambda: Inside(pyg.SAGEConv(4, 3, aggr="std")), "SAGEConv aggregates by StdAggregation"),
        (lambda: OtherEdges(pyg.GINConv(mlp())), "along edges that are not in the graph"),
        (lambda: OtherNodes(pyg.GINConv(mlp())), "between nodes that are not in the graph"),
    ],
    ids=["cached", "std", "other edges", "other nodes"],
)
def test_what_is_not_understood_is_an_error(make: Make, said: str) -> None:
    """No layer gets the weights of other edges."""
    module = double(make)
    x = torch.randn(9, 4, dtype=torch.float64)
    graph = pair_graph(torch.tensor([[0, 2], [2, 0]]), torch.tensor([[0], [1]]), 9)
    with pytest.raises(GradientError, match=said):
        masked(module, x, graph, torch.ones(1, dtype=torch.float64))


@given(st.permutations(range(6)), st.integers(0, 3))
def test_edges_are_found_in_any_order(order: list[int], loops: int) -> None:
    """Self-loops among them have weight 1."""
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 3], [1, 0, 3, 2, 3, 0]])
    given_weights = torch.arange(2.0, 8.0)
    shuffled = torch.cat([torch.arange(loops).expand(2, -1), edge_index[:, order]], dim=1)
    actual = Edges(edge_index, 4).weights(given_weights, shuffled)
    assert actual.tolist() == [1.0] * loops + given_weights[order].tolist()
