"""Logits for features of injected nodes: those of the whole model, from fewer rows."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from grb_check.gradients.alternating import Alternating, injected_logits
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN

Attacked = tuple[int, int, Tensor, Tensor]


@st.composite
def attacked_graphs(draw: st.DrawFn) -> Attacked:
    """Existing nodes, injected nodes, their edges, and targets: none linked, some, or all."""
    num_nodes, count = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    old, any_node = st.integers(0, num_nodes - 1), st.integers(0, num_nodes + count - 1)
    new = st.integers(num_nodes, num_nodes + count - 1)
    ends = draw(st.lists(st.tuples(old, old), max_size=20))
    ends += draw(st.lists(st.tuples(new, any_node), max_size=8))
    edge_index = torch.tensor([pair for pair in ends if pair[0] != pair[1]], dtype=torch.int64)
    edge_index = edge_index.reshape(-1, 2).T
    if edge_index.shape[1]:
        edge_index = coalesce(to_undirected(edge_index, num_nodes=num_nodes + count))
    targets = draw(st.lists(old, unique=True, min_size=1))
    return num_nodes, count, edge_index, torch.tensor(targets)


def _gcn(hidden: tuple[int, ...], layer_norm: bool) -> Alternating:
    model = GCN(4, 3, hidden, layer_norm=layer_norm).eval().requires_grad_(False)
    for parameter in model.parameters():  # biases and scales that are neither 0 nor 1
        parameter.copy_(torch.randn_like(parameter) / 2)
    return model.double()


def _gin(hidden: tuple[int, ...], eps: float, layer_norm: bool) -> Alternating:
    model = GIN(4, 3, hidden, eps=eps, layer_norm=layer_norm).eval().requires_grad_(False)
    for norm in model.norms:  # as after some training
        norm.running_mean = torch.randn(norm.num_features) / 2
        norm.running_var = torch.rand(norm.num_features) + 0.5
    return model.double()


def _size(values: Tensor) -> float:
    return max(1.0, float(values.detach().abs().max()))


def _check_against_whole(model: Alternating, graph: Attacked) -> None:
    """Compare logits and gradients, to 1e-5 of the largest or of 1.

    In float64, because normalised rows of two or three columns amplify rounding.
    """
    num_nodes, count, edge_index, targets = graph
    x, injected = (torch.randn(n, 4, dtype=torch.float64) for n in (num_nodes, count))
    injected.requires_grad_()
    expected = model(torch.cat([x, injected]), edge_index)[targets]
    actual = injected_logits(model, x, edge_index, count, targets)(injected)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5 * _size(expected))
    direction = torch.randn_like(expected)
    gradients = [
        torch.autograd.grad((logits * direction).sum(), injected)[0]
        for logits in (actual, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5 * _size(gradients[1]))


@settings(deadline=None, max_examples=150)
@given(
    graph=attacked_graphs(),
    hidden=st.sampled_from([(), (3,), (8, 4), (2, 9, 5)]),
    layer_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_the_whole_forward_pass(
    graph: Attacked, hidden: tuple[int, ...], layer_norm: bool, seed: int
) -> None:
    """The GCN, depths 1 to 4."""
    torch.manual_seed(seed)
    _check_against_whole(_gcn(hidden, layer_norm), graph)


@settings(deadline=None, max_examples=80)
@given(
    graph=attacked_graphs(),
    hidden=st.sampled_from([(3,), (8, 4), (2, 9, 5)]),
    eps=st.sampled_from([0.0, 0.5]),
    layer_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_the_whole_forward_pass_of_the_gin(
    graph: Attacked, hidden: tuple[int, ...], eps: float, layer_norm: bool, seed: int
) -> None:
    """Depths 1 to 3, with and without layer normalisation."""
    torch.manual_seed(seed)
    _check_against_whole(_gin(hidden, eps, layer_norm), graph)
