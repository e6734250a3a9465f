"""Gradients of all pairs of nodes, from the propagations of PyG's layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import community_dataset
from strategies import graphs
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_dense_adj

from grb_check.attacks.protocol import PairGradients
from grb_check.gradients.layer_factors import LayerFactors
from grb_check.gradients.pair_graph import pair_graph
from grb_check.gradients.victim import Victim
from grb_check.gradients.weight_trial import TRIAL_NODES
from grb_check.gradients.without_stops import without_stops
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.probed import Probed
from grb_check.victims.receptive_field import is_patched

Make = Callable[[], nn.Module]
NUM_NODES = 24
# Node 0 is isolated.
GRAPH = community_dataset(num_nodes=NUM_NODES).graph
WIDE = torch.randn(NUM_NODES, 40, generator=torch.Generator().manual_seed(0))
PAIRS = torch.tensor(list(combinations(range(NUM_NODES), 2))).T
TARGETS = torch.tensor([3, 0, 20, 11, 5, 16])


class Stack(nn.Module):
    """Layers with an activation between them."""

    def __init__(self, *layers: nn.Module, activation: Callable[[Tensor], Tensor] = torch.tanh):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.activation = activation

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        *firsts, last = self.layers
        for layer in firsts:
            x = self.activation(layer(x, edge_index))
        return last(x, edge_index)


class Propagated(nn.Module):
    """A linear layer after a propagation without parameters, or before it."""

    def __init__(self, propagation: nn.Module, *, first: bool) -> None:
        super().__init__()
        self.linear, self.propagation, self.first = nn.Linear(40, 3), propagation, first

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.first:
            return self.propagation(self.linear(x), edge_index)
        return self.linear(self.propagation(x, edge_index))


class OwnLayer(pyg.MessagePassing):
    """Divides by the degrees of the senders, as a user's layer might."""

    def __init__(self, columns: int, out: int) -> None:
        super().__init__(aggr="sum")
        self.weight = nn.Parameter(torch.randn(columns, out))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        sums = x.new_zeros(x.shape[0]).index_add(0, edge_index[0], weight)
        sent = x @ self.weight
        norm = weight / torch.where(sums > 0, sums, 1.0)[edge_index[0]]
        return self.propagate(edge_index, sent=sent, norm=norm)

    def message(self, sent_j: Tensor, norm: Tensor) -> Tensor:
        return norm[:, None] * sent_j


class WholeData(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = Stack(pyg.SAGEConv(40, 8), pyg.GCNConv(8, 3))

    def forward(self, data: Data) -> Tensor:
        return self.layers(data.x, data.edge_index)


class AdjT(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = Stack(*layers)

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        return self.layers(x, adj_t)


def mlp(columns: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(columns, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, out))


def encoder() -> nn.Module:
    layers = Stack(pyg.GCNConv(40, 8), pyg.GINConv(mlp(8, 5))).eval()
    return Probed(adapter_of(layers), torch.randn(3, 5), torch.zeros(3))


# Each module, and the largest rank of its gradient.
MODELS: dict[str, tuple[Make, int]] = {
    "PyG's GCN": (lambda: pyg.models.GCN(40, 8, 2, 3), 8 + 3),
    "PyG's GIN": (lambda: pyg.models.GIN(40, 8, 2, 3), 8 + 3),
    "PyG's GraphSAGE": (lambda: pyg.models.GraphSAGE(40, 8, 2, 3), 8 + 3),
    "SAGE, sum": (lambda: pyg.models.GraphSAGE(40, 8, 2, 3, aggr="sum"), 8 + 3),
    "GIN, deeper": (lambda: Stack(pyg.GINConv(mlp(40, 8)), pyg.GINConv(mlp(8, 3))), 6 + 6),
    "GraphConv": (lambda: Stack(pyg.GraphConv(40, 8), pyg.GraphConv(8, 3)), 8 + 3),
    "GraphConv, mean": (lambda: pyg.GraphConv(40, 3, aggr="mean"), 3),
    "SGC": (lambda: pyg.SGConv(40, 3, K=2), 2 * 3),
    "SSGC": (lambda: pyg.SSGConv(40, 3, alpha=0.1, K=3), 3 * 3),
    "APPNP": (lambda: Propagated(pyg.APPNP(4, 0.1), first=True), 4 * 3),
    "APPNP of raw features": (lambda: Propagated(pyg.APPNP(4, 0.1), first=False), 4 * 3),
    "LightGCN": (lambda: Propagated(pyg.LGConv(), first=True), 3),
    "TAG": (lambda: pyg.TAGConv(40, 3, K=2), 3 + 2 * 3),
    "Chebyshev": (lambda: pyg.ChebConv(40, 3, K=3), 3 + 2 * 3),
    "own layer": (lambda: Stack(OwnLayer(40, 8), OwnLayer(8, 3)), 8 + 3),
    "in place": (
        lambda: Stack(pyg.GCNConv(40, 8, bias=False), pyg.LGConv(), activation=torch.relu_),
        8 + 8,
    ),
    "whole data": (WholeData, 8 + 3),
    "adj_t": (lambda: AdjT(pyg.GCNConv(40, 8), pyg.SAGEConv(8, 3)), 8 + 3),
    "encoder": (encoder, 8 + 6),
}


def adapter_of(module: nn.Module) -> Adapter:
    return Adapter(module, "m", detect_convention(module, "forward", "m"))


def victim_of(make: Make) -> Victim:
    torch.manual_seed(0)
    module = make().eval().requires_grad_(False)
    num_classes = 8 if isinstance(module, Stack) and module.activation is torch.relu_ else 3
    return Victim(adapter_of(module), num_classes)


def objective(logits: Tensor) -> Tensor:
    return F.cross_entropy(logits, torch.arange(logits.shape[0]) % 3)


def found(victim: Victim, edge_weight: Tensor | None = None) -> PairGradients | None:
    return victim.pair_gradients(WIDE, GRAPH.edge_index, TARGETS, objective, edge_weight)


def expected(victim: Victim, of_pairs: Tensor) -> Tensor:
    """float [m] by autograd, at weights of all pairs."""
    logits_of = victim.with_pairs(WIDE, GRAPH.edge_index, PAIRS, TARGETS)
    assert logits_of is not None
    weights = of_pairs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(logits_of(weights)), weights)
    return gradient


PRESENT = pair_graph(GRAPH.edge_index, PAIRS, NUM_NODES).present.float()
FIRM = (degree(GRAPH.edge_index[0], NUM_NODES)[PAIRS] > 0).all(0)  # no end is isolated


@pytest.mark.parametrize(("make", "rank"), MODELS.values(), ids=MODELS)
def test_gradients_are_autograds(make: Make, rank: int) -> None:
    """For every pair without an isolated node, with factors as narrow as the layers."""
    victim = victim_of(make)
    gradients = found(victim)
    assert gradients is not None
    expected_gradients = expected(victim, PRESENT)[FIRM]
    scale = float(expected_gradients.abs().max())
    torch.testing.assert_close(
        gradients.at(PAIRS)[FIRM] / scale, expected_gradients / scale, rtol=0, atol=1e-4
    )
    assert gradients.inputs.shape == gradients.outputs.shape
    assert gradients.inputs.shape[1] <= rank


class Stopped(Stack):
    """The same values, and a gradient neither in its first layer nor in its output."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first, last = self.layers
        output = last(self.activation(first(x, edge_index).detach()), edge_index)
        return output.detach()


def test_a_model_that_is_called_without_its_stops_has_the_gradient_behind_them() -> None:
    layers = (lambda: pyg.SAGEConv(40, 8)), (lambda: pyg.SAGEConv(8, 3))
    open_victim, stopped = (
        victim_of(lambda kind=kind: kind(*(layer() for layer in layers)))
        for kind in (Stack, Stopped)
    )
    without = replace(stopped, adapter=replace(stopped.adapter, within=without_stops))
    actual, right = found(without), found(open_victim)
    assert actual is not None
    assert right is not None
    torch.testing.assert_close(actual.at(PAIRS), right.at(PAIRS))
    assert not actual.at(PAIRS).requires_grad


@pytest.mark.parametrize("name", ["PyG's GCN", "PyG's GraphSAGE"])
def test_gradients_at_weights(name: str) -> None:
    """At given edge weights, for a model that takes them and one that does not."""
    victim = victim_of(MODELS[name][0])
    drawn = 0.2 + 0.8 * torch.rand(PAIRS.shape[1], generator=torch.Generator().manual_seed(1))
    of_pairs = drawn * PRESENT
    dense = torch.zeros(NUM_NODES, NUM_NODES)
    dense[PAIRS[0], PAIRS[1]] = of_pairs
    dense = dense + dense.T
    gradients = found(victim, dense[GRAPH.edge_index[0], GRAPH.edge_index[1]])
    assert gradients is not None
    expected_gradients = expected(victim, of_pairs)[FIRM]
    torch.testing.assert_close(gradients.at(PAIRS)[FIRM], expected_gradients, rtol=1e-3, atol=1e-6)


@settings(deadline=None, max_examples=25)
@given(graph=graphs(), seed=st.integers(0, 100))
def test_a_graph_of_any_kind(graph: Data, seed: int) -> None:
    """Every gradient that is returned is correct."""
    torch.manual_seed(seed)
    module = Stack(pyg.SAGEConv(4, 4), pyg.GCNConv(4, 3)).eval().requires_grad_(False)
    victim = Victim(adapter_of(module), 3)
    count = graph.num_nodes
    x, targets = torch.randn(count, 4), torch.arange(count)
    gradients = victim.pair_gradients(x, graph.edge_index, targets, objective)
    if gradients is None:
        return
    pairs = torch.tensor(list(combinations(range(count), 2))).T
    logits_of = victim.with_pairs(x, graph.edge_index, pairs, targets)
    assert logits_of is not None
    weights = to_dense_adj(graph.edge_index, max_num_nodes=count)[0][pairs[0], pairs[1]]
    weights.requires_grad_()
    (expected_gradients,) = torch.autograd.grad(objective(logits_of(weights)), weights)
    torch.testing.assert_close(gradients.at(pairs), expected_gradients, rtol=1e-3, atol=1e-4)


class DegreesBeside(Stack):
    """Its statistic of the edges outside its layers depends on weights too."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        sums = x.new_zeros(x.shape[0]).index_add(0, edge_index[0], weight)
        return self.layers[0](x, edge_index, weight) * sums[:, None]


class Detached(Stack):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index).detach()


class Dead(Stack):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return 0 * super().forward(x, edge_index)


NONE: dict[str, Make] = {
    "attention": lambda: pyg.models.GAT(40, 8, 2, 3),
    "maximum": lambda: pyg.SAGEConv(40, 3, aggr="max"),
    "attention after GCN": lambda: Stack(pyg.GCNConv(40, 8), pyg.GATConv(8, 3)),
    "several aggregations": lambda: pyg.SAGEConv(40, 3, aggr=["mean", "max"]),
    "two messages": lambda: pyg.LEConv(40, 3),
    "degrees beside a layer": lambda: DegreesBeside(pyg.GCNConv(40, 3)),
    "cached": lambda: pyg.GCNConv(40, 3, cached=True),
    "no gradient": lambda: Detached(pyg.GCNConv(40, 3)),
    "no effect": lambda: Dead(pyg.GCNConv(40, 3)),
    "no PyG layer": lambda: pyg.models.MLP([40, 3]),
}


@pytest.mark.parametrize("make", NONE.values(), ids=NONE)
def test_other_models_have_none(make: Make) -> None:
    """Also on the second call; no hook is left in the module."""
    victim = victim_of(make)
    before = victim(WIDE, GRAPH.edge_index)
    assert found(victim) is None
    assert found(victim) is None
    assert not is_patched(victim.module)
    assert torch.equal(before, victim(WIDE, GRAPH.edge_index))


def test_a_layer_that_changes_later_has_none() -> None:
    """Inputs and outputs are compared in every call."""
    victim = victim_of(lambda: Stack(pyg.SAGEConv(40, 8), pyg.SAGEConv(8, 3)))
    assert found(victim) is not None
    victim.module.layers[1].aggr_module = pyg.aggr.MaxAggregation()
    assert found(victim) is None


def test_a_larger_graph_is_tried_in_part() -> None:
    """On at most `TRIAL_NODES` nodes; on the whole graph if the module needs it."""
    graph = community_dataset(num_nodes=900).graph
    sizes: list[int] = []

    class Sized(Stack):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            sizes.append(x.shape[0])
            return super().forward(x, edge_index)

    class Fixed(Sized):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            if x.shape[0] != 900:
                raise ValueError("another graph")
            return super().forward(x, edge_index)

    for kind, largest in ((Sized, TRIAL_NODES), (Fixed, 900)):
        sizes.clear()
        torch.manual_seed(0)
        module = kind(pyg.SAGEConv(8, 3)).eval().requires_grad_(False)
        gradients = LayerFactors().gradients(
            adapter_of(module), graph.x, graph.edge_index, objective
        )
        assert gradients is not None
        assert max(sizes[:-1]) == largest
