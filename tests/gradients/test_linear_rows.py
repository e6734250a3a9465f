"""Modules that propagate column by column: logits of injected features without any edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from attacked_graphs import WIDTH, Attacked, adapter_of, attacked_graphs, community, compare
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import APPNP, SGConv, SimpleConv, SSGConv

from grb_check.gradients import injected_rows, linear_rows
from grb_check.gradients.injected_rows import NO_FORM, RowForm, injected_row_logits
from grb_check.gradients.linear_rows import LinearRows
from grb_check.models.defences.gprgnn import GPRGNN, GeneralizedPageRank


class Decoupled(nn.Module):
    """A perceptron, a propagation of several hops, and a linear layer."""

    def __init__(self, propagation: nn.Module) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 4))
        self.propagation = propagation
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.last(torch.relu(self.propagation(self.first(x), edge_index)))
        return h


class Twice(nn.Module):
    """Two hops, with something in between."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.hop, self.between = SimpleConv(aggr="sum"), between

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        z: Tensor = self.hop(self.between(self.hop(h, edge_index)), edge_index)
        return z


def mixed(h: Tensor) -> Tensor:
    """Columns in another order, where there are as many as in the module."""
    return h.flip(1) if h.shape[1] == 4 else h


def demanding(h: Tensor) -> Tensor:
    assert h.shape[1] == 4
    return h


LINEAR: dict[str, Callable[[], nn.Module]] = {
    "appnp": lambda: Decoupled(APPNP(4, 0.1)),
    "appnp without loops": lambda: Decoupled(APPNP(3, 0.2, add_self_loops=False)),
    "gpr": lambda: Decoupled(GeneralizedPageRank(4, 0.1)),
    "gprgnn": lambda: GPRGNN(WIDTH, 3, (8,), k=5),
}


def form_of(module: nn.Module, graph: Attacked, seed: int = 0) -> RowForm:
    """The form that passes, whose logits and gradients are compared with the module's."""
    num_nodes, count, edge_index, targets = graph
    adapter, generator = adapter_of(module), torch.Generator().manual_seed(seed)
    x, injected = (
        torch.randn(n, WIDTH, dtype=torch.float64, generator=generator) for n in (num_nodes, count)
    )
    known = RowForm()
    logits_of = injected_row_logits(adapter, x, edge_index, count, targets, known)
    if logits_of is not None:
        injected.requires_grad_()
        expected = adapter(torch.cat([x, injected]), edge_index)[targets]
        compare(logits_of(injected), expected, injected)
    return known


@settings(deadline=None, max_examples=40)
@given(graph=attacked_graphs(), kind=st.sampled_from([*LINEAR]), seed=st.integers(0, 99))
def test_a_linear_propagation_needs_no_edges(graph: Attacked, kind: str, seed: int) -> None:
    torch.manual_seed(seed)
    assert form_of(LINEAR[kind](), graph, seed).number == 0


def test_columns_are_propagated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_rows, "COLUMNS", 1)
    torch.manual_seed(0)
    assert form_of(LINEAR["gpr"](), community()).number == 0


@pytest.mark.parametrize("between", [torch.square, torch.relu, mixed, demanding])
def test_what_is_no_linear_map_of_columns_has_another_form(
    between: Callable[[Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    assert form_of(Decoupled(Twice(between)), community()).number not in (0, NO_FORM)


def test_the_smallest_part_that_is_called_once_is_taken() -> None:
    """What follows on it need not be linear."""
    torch.manual_seed(0)
    part = nn.Module()
    part.hops = APPNP(3, 0.1)
    part.forward = lambda h, edge_index: part.hops(h, edge_index) ** 2
    assert form_of(Decoupled(part), community()).number == 0


@pytest.mark.parametrize("layer", [SGConv, SSGConv])
def test_layers_with_weights_of_their_own_take_no_other_columns(
    layer: Callable[..., nn.Module],
) -> None:
    """The whole module is asked, with sums as products."""
    torch.manual_seed(0)
    module = Decoupled(layer(4, 4, K=2) if layer is SGConv else layer(4, 4, 0.1, K=2))
    assert form_of(module, community()).number == 1


def test_a_matrix_of_too_many_entries_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_rows, "MOST_ENTRIES", 1)
    torch.manual_seed(0)
    assert form_of(LINEAR["appnp"](), community()).number == 1


def test_the_form_that_passed_is_only_asked_for_its_output_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On another topology; and where it differs there, the module runs as a whole."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    adapter, known = adapter_of(LINEAR["gpr"]()), RowForm()
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    fewer = edge_index[:, edge_index.amax(0) != 0]
    assert injected_row_logits(adapter, x, edge_index, count, targets, known) is not None

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a gradient, or the layers' calls, were asked for")

    monkeypatch.setattr(injected_rows, "along_direction", fail)
    monkeypatch.setattr(injected_rows, "recorded_calls", fail)
    logits_of = injected_row_logits(adapter, x, fewer, count, targets, known)
    assert logits_of is not None
    injected = torch.randn(count, WIDTH, dtype=torch.float64)
    expected = adapter(torch.cat([x, injected]), fewer)[targets]
    torch.testing.assert_close(logits_of(injected), expected)
    other = LinearRows(lambda features: features.new_ones(1, 3), torch.zeros(1, 3))
    monkeypatch.setattr(injected_rows, "linear_rows", lambda *_: other)
    assert injected_row_logits(adapter, x, fewer, count, targets, known) is None
    assert known.number == 0
