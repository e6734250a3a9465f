"""Sums over neighbours as products with sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attacked_graphs import WIDTH, Attacked, adapter_of, attacked_graphs, community, compare
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import (
    ChebConv,
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    MessagePassing,
    SAGEConv,
    SGConv,
    SSGConv,
    TAGConv,
)

from grb_check.gradients.injected_rows import RowForm, injected_row_logits
from grb_check.gradients.layer_calls import keeping_state
from grb_check.gradients.sparse_sums import SparseSums, summed_logits
from grb_check.gradients.victim import Victim
from grb_check.victims.probed import Probed


class Layer(MessagePassing):
    """Two hops of a user's own, by the product of the ends' numbers."""

    def __init__(self, a: int, b: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.lin = nn.Linear(a, b)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        degrees = torch.bincount(edge_index[1], minlength=x.shape[0]).clamp(min=1).to(x)
        norm = degrees.rsqrt()[edge_index].prod(0)
        h: Tensor = self.propagate(edge_index, x=self.lin(x), norm=norm)
        z: Tensor = self.propagate(edge_index, x=h, norm=norm)
        return z

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


class Remembering(Layer):
    """It keeps what its messages were, which its output depends on."""

    last: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = super().forward(x, edge_index)
        assert self.last is not None
        return z + self.last.mean()

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        self.last = norm.view(-1, 1) * x_j
        return self.last


class Squared(Layer):
    """Its messages are no multiples of rows."""

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j**2


class Updated(Layer):
    """It does something to the sums."""

    def update(self, inputs: Tensor) -> Tensor:
        return inputs.relu()


class Two(nn.Module):
    """Two layers, whose output goes through a ReLU and a norm in between."""

    def __init__(self, layer: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.last = layer(WIDTH, 8), layer(8, 3)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.last(self.norm(self.first(x, edge_index).relu()), edge_index)
        return h


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "tag": TAGConv,
    "cheb": lambda a, b: ChebConv(a, b, 3),
    "ssg": lambda a, b: SSGConv(a, b, 0.1, K=3),
    "own": Layer,
    "own, mean": lambda a, b: Layer(a, b, aggr="mean"),
    "gin": lambda a, b: GINConv(nn.Linear(a, b)),
    "sage": SAGEConv,
}
OTHERS: dict[str, Callable[[int, int], nn.Module]] = {
    "attention": GATConv,
    "maximum": lambda a, b: GraphConv(a, b, aggr="max"),
    "squared": Squared,
    "updated": Updated,
    "to senders": lambda a, b: Layer(a, b, flow="target_to_source"),
}


def form_on(module: nn.Module, graph: Attacked) -> Callable[[Tensor], Tensor] | None:
    """The form on a graph with features of 0 but for the injected nodes."""
    num_nodes, count, edge_index, targets = graph
    adapter = adapter_of(module)
    start = torch.zeros((num_nodes + count, WIDTH), dtype=torch.float64)
    injected = torch.arange(num_nodes, num_nodes + count)
    forward = keeping_state(module, adapter.with_graph(edge_index, num_nodes + count, {}))
    return summed_logits(module, forward, start, injected, targets)


@settings(deadline=None, max_examples=40)
@given(graph=attacked_graphs(), kind=st.sampled_from([*LAYERS]), seed=st.integers(0, 99))
def test_the_module_gives_the_same(graph: Attacked, kind: str, seed: int) -> None:
    """Logits and gradients, and later calls of the module are its own."""
    torch.manual_seed(seed)
    module = Two(LAYERS[kind])
    logits_of = form_on(module, graph)
    assert logits_of is not None
    num_nodes, count, edge_index, targets = graph
    injected = torch.randn((count, WIDTH), dtype=torch.float64, requires_grad=True)
    before = [dict(vars(part)) for part in module.modules()]
    given_here = logits_of(injected)
    assert before == [dict(vars(part)) for part in module.modules()]
    x = torch.zeros((num_nodes, WIDTH), dtype=torch.float64)
    expected = adapter_of(module)(torch.cat([x, injected]), edge_index)[targets]
    compare(given_here, expected, injected)


@pytest.mark.parametrize("kind", OTHERS)
def test_layers_that_do_something_else_are_left_alone(kind: str) -> None:
    torch.manual_seed(0)
    assert form_on(Two(OTHERS[kind]), community()) is None


def test_numbers_that_depend_on_features_are_not_kept() -> None:
    """Weights of a user's own attention have a gradient, or are others in each call."""

    class Attention(Layer):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            h = self.lin(x)
            norm = h[edge_index].prod(0).sum(1).sigmoid()
            z: Tensor = self.propagate(edge_index, x=h, norm=norm)
            return z

    torch.manual_seed(0)
    module, graph = Two(Attention), community()
    num_nodes, count, edge_index, targets = graph
    logits_of = form_on(module, graph)
    assert logits_of is not None
    x = torch.zeros((num_nodes, WIDTH), dtype=torch.float64)
    for _ in range(2):
        injected = torch.randn((count, WIDTH), dtype=torch.float64, requires_grad=True)
        expected = adapter_of(module)(torch.cat([x, injected]), edge_index)[targets]
        compare(logits_of(injected), expected, injected)
        with torch.no_grad():
            assert torch.allclose(logits_of(injected), expected)


def test_what_messages_leave_behind_is_neither_lost_nor_changed() -> None:
    """No form is taken that would lose it, and trying it out changes nothing."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    adapter = adapter_of(Two(Remembering))
    adapter(torch.cat([x, x[:count]]), edge_index)
    layers = [part for part in adapter.module.children() if isinstance(part, Remembering)]
    before = [layer.last for layer in layers]
    assert form_on(adapter.module, community()) is not None
    assert all(layer.last is last for layer, last in zip(layers, before, strict=True))
    assert injected_row_logits(adapter, x, edge_index, count, targets, RowForm()) is None


def test_modules_of_several_hops_are_asked_in_this_form() -> None:
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    known = RowForm()
    adapter = adapter_of(Two(TAGConv))
    assert injected_row_logits(adapter, x, edge_index, count, targets, known) is not None


class Weighted(nn.Module):
    """A layer of PyG that takes weights of edges, and then another."""

    def __init__(self, layer: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.last = layer(WIDTH, 8), layer(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        h = self.first(x, edge_index, edge_weight).relu()
        z: Tensor = self.last(h, edge_index, edge_weight)
        return z


WEIGHTED: dict[str, Callable[[int, int], nn.Module]] = {
    "tag": TAGConv,
    "cheb": lambda a, b: ChebConv(a, b, 3),
    "gcn": GCNConv,
    "sgc": lambda a, b: SGConv(a, b, 3),
    "graph": GraphConv,
    "mean": lambda a, b: GraphConv(a, b, aggr="mean"),
}


@pytest.mark.parametrize("twice", [False, True], ids=["", "an edge twice"])
@pytest.mark.parametrize("kind", WEIGHTED)
def test_weights_have_the_modules_gradient(kind: str, twice: bool) -> None:
    """So has a graph in which an edge is there twice, which is no place of a matrix."""
    torch.manual_seed(0)
    num_nodes, _, edge_index, _ = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    if twice:
        edge_index = torch.cat([edge_index, edge_index[:, :1]], dim=1)
    module = Weighted(WEIGHTED[kind]).double().eval()
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    weights = torch.rand(edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    expected = module(x, edge_index, weights)
    sums = SparseSums.of(module, x.device)
    assert sums is not None
    for _ in range(2):
        with sums.used():
            compare(module(x, edge_index, weights), expected, weights)


def test_numbers_that_change_in_place_are_seen() -> None:
    torch.manual_seed(0)
    num_nodes, _, edge_index, _ = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    module = Weighted(GraphConv).double().eval()
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    weights = torch.rand(edge_index.shape[1], dtype=torch.float64)
    sums = SparseSums.of(module, x.device)
    assert sums is not None
    for _ in range(2):
        with sums.used(), torch.no_grad():
            assert torch.allclose(module(x, edge_index, weights), module(x, edge_index, weights))
            given_here = module(x, edge_index, weights)
        assert torch.allclose(given_here, module(x, edge_index, weights))
        weights.mul_(2)


def test_edges_that_change_in_place_are_seen() -> None:
    torch.manual_seed(0)
    num_nodes, _, edge_index, _ = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    module = Two(Layer).double().eval()
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    sums = SparseSums.of(module, x.device)
    assert sums is not None
    for _ in range(2):
        with sums.used(), torch.no_grad():
            given_here = module(x, edge_index)
        assert torch.allclose(given_here, module(x, edge_index))
        edge_index[1] = edge_index[1].roll(1)


@pytest.mark.parametrize("kind", ["propagate_forward", "propagate_forward_pre", "message_forward"])
def test_hooks_of_pyg_are_called(kind: str) -> None:
    torch.manual_seed(0)
    num_nodes, _, edge_index, _ = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    layer = SAGEConv(WIDTH, 3)
    sums = SparseSums.of(layer, edge_index.device)
    assert sums is not None
    seen = []
    getattr(layer, f"register_{kind}_hook")(lambda *given: seen.append(given))
    x = torch.randn(num_nodes, WIDTH)
    with torch.no_grad():
        expected = layer(x, edge_index)
        with sums.used():
            assert torch.allclose(layer(x, edge_index), expected, atol=1e-6)
    (first, second) = seen
    assert [type(argument) for argument in first] == [type(argument) for argument in second]
    assert first[1][-1].keys() == second[1][-1].keys()


def test_a_hook_of_pyg_may_change_the_sums() -> None:
    num_nodes, _, edge_index, _ = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    layer = SAGEConv(WIDTH, 3)
    sums = SparseSums.of(layer, edge_index.device)
    assert sums is not None
    layer.register_propagate_forward_hook(lambda layer, inputs, output: 2 * output)
    x = torch.randn(num_nodes, WIDTH)
    with torch.no_grad():
        expected = layer(x, edge_index)
        with sums.used():
            assert torch.allclose(layer(x, edge_index), expected, atol=1e-6)


def test_products_inside_of_products_leave_a_layer_as_it_was() -> None:
    torch.manual_seed(0)
    num_nodes, _, edge_index, _ = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    layer, x = SAGEConv(WIDTH, 3), torch.randn(num_nodes, WIDTH)
    outer, inner = SparseSums.of(layer, x.device), SparseSums.of(layer, x.device)
    assert outer is not None
    assert inner is not None
    before = dict(vars(layer))
    with torch.no_grad():
        expected = layer(x, edge_index)
        with outer.used():
            with inner.used():
                assert torch.allclose(layer(x, edge_index), expected, atol=1e-6)
            assert torch.allclose(layer(x, edge_index), expected, atol=1e-6)
    assert vars(layer) == before


def test_other_dtypes_are_left_to_the_module() -> None:
    _, _, edge_index, _ = community()
    layer, x = SAGEConv(WIDTH, 3).bfloat16(), torch.randn(40, WIDTH).bfloat16()
    sums = SparseSums.of(layer, x.device)
    assert sums is not None
    expected = layer(x, edge_index)
    with sums.used():
        assert torch.equal(layer(x, edge_index), expected)


def test_nodes_that_are_not_there_are_the_modules_own_error() -> None:
    layer, x = SAGEConv(WIDTH, 3), torch.randn(4, WIDTH)
    sums = SparseSums.of(layer, x.device)
    assert sums is not None
    with sums.used(), pytest.raises(IndexError, match="larger than 3"):
        layer(x, torch.tensor([[0, 4], [1, 2]]))


def victim_of(module: nn.Module) -> Victim:
    return Victim(adapter_of(module), 3)


@pytest.mark.parametrize("kind", [*LAYERS])
def test_searches_ask_the_same_model_in_products(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message is made, also on other graphs than that of the trial."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, _ = community()
    of_clean = edge_index[:, edge_index.max(0).values < num_nodes]
    victim = victim_of(Two(LAYERS[kind]))
    x = torch.randn((num_nodes + count, WIDTH), dtype=torch.float64, requires_grad=True)
    searched = victim.for_searches(x[:num_nodes].detach(), of_clean)
    assert searched is not victim
    expected = victim(x, edge_index)
    monkeypatch.setattr(MessagePassing, "aggregate", None)
    compare(searched(x, edge_index), expected, x)


@pytest.mark.parametrize("probe", [False, True], ids=["model", "encoder"])
@pytest.mark.parametrize("kind", [*LAYERS])
def test_searches_have_the_models_gradient_for_edges(kind: str, probe: bool) -> None:
    """Of pairs that have weights, and of all pairs at once."""
    torch.manual_seed(0)
    num_nodes, _, edge_index, targets = community()
    edge_index = edge_index[:, edge_index.max(0).values < num_nodes]
    module: nn.Module = Two(LAYERS[kind])
    if probe:
        numbers = torch.randn((3, 3), dtype=torch.float64)
        module = Probed(adapter_of(module), numbers, torch.zeros(3, dtype=torch.float64))
    victim = victim_of(module)
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    pairs = torch.triu_indices(num_nodes, num_nodes, 1)[:, ::5]
    weights = torch.rand(pairs.shape[1], dtype=torch.float64, requires_grad=True)
    searched = victim.for_searches(x, edge_index)
    assert searched is not victim
    by_weights = [one.with_pairs(x, edge_index, pairs, targets) for one in (searched, victim)]
    assert all(logits_of is not None for logits_of in by_weights)
    compare(*(logits_of(weights) for logits_of in by_weights if logits_of is not None), weights)
    ours, right = (
        one.pair_gradients(x, edge_index, targets, torch.sum) for one in (searched, victim)
    )
    assert (ours is None) == (right is None)
    if ours is not None and right is not None:
        torch.testing.assert_close(ours.at(pairs), right.at(pairs))


@pytest.mark.parametrize("layer", [Remembering, GATConv])
def test_searches_ask_a_model_itself_that_products_do_not_give(layer: type[nn.Module]) -> None:
    torch.manual_seed(0)
    num_nodes, _, edge_index, _ = community()
    of_clean = edge_index[:, edge_index.max(0).values < num_nodes]
    x = torch.randn((num_nodes, WIDTH), dtype=torch.float64)
    victim = victim_of(Two(layer))
    victim(x, of_clean)  # which it remembers
    assert victim.for_searches(x, of_clean) is victim
