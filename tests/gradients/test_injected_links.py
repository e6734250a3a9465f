"""Weights of links: the model's own logits for 0 and 1, and correct gradients between."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.gradients.alternating import Alternating, linked_logits
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN

# Graph, weights of links [n, m], candidates [m], targets [t].
Relaxed = tuple[Data, Tensor, Tensor, Tensor]


@st.composite
def weighted_links(draw: st.DrawFn) -> Relaxed:
    """Candidates and targets, different nodes in any order; some injected nodes have no links."""
    graph = draw(graphs())
    node = st.integers(0, graph.num_nodes - 1)
    candidates = draw(st.lists(node, unique=True, min_size=1))
    targets = draw(st.lists(node, unique=True, min_size=1))
    count, width = draw(st.integers(1, 3)), len(candidates)
    bits = draw(st.lists(st.booleans(), min_size=count * width, max_size=count * width))
    weights = torch.tensor(bits).float().reshape(count, width)
    return graph, weights, torch.tensor(candidates), torch.tensor(targets)


def _gcn(width: int, hidden: tuple[int, ...], layer_norm: bool = False) -> GCN:
    model = GCN(width, 3, hidden, layer_norm=layer_norm).eval().requires_grad_(False)
    for parameter in model.parameters():  # biases and scales that are neither 0 nor 1
        parameter.copy_(torch.randn_like(parameter) / 2)
    return model


def _gin(width: int, hidden: tuple[int, ...], eps: float = 0.0) -> GIN:
    model = GIN(width, 3, hidden, eps=eps).eval().requires_grad_(False)
    for norm in model.norms:  # as after some training
        assert isinstance(norm, nn.BatchNorm1d)
        norm.running_mean = torch.randn(norm.num_features) / 2
        norm.running_var = torch.rand(norm.num_features) + 0.5
    return model


def _with_links(graph: Data, weights: Tensor, candidates: Tensor) -> Tensor:
    """The edges of the graph with the links of weight 1."""
    new, target_index = weights.nonzero().T
    links = torch.stack([new + graph.num_nodes, candidates[target_index]])
    return torch.cat([graph.edge_index, links, links.flip(0)], dim=1)


def _size(values: Tensor) -> float:
    return max(1.0, float(values.detach().abs().max()))


def _check_against_whole(model: Alternating, relaxed: Relaxed) -> None:
    """Compare logits and the gradient in the features, to 1e-5 of the largest or of 1."""
    graph, weights, candidates, targets = relaxed
    injected = torch.randn(weights.shape[0], graph.x.shape[1], requires_grad=True)
    whole = model(torch.cat([graph.x, injected]), _with_links(graph, weights, candidates))[targets]
    logits_of = linked_logits(model, graph.x, graph.edge_index, candidates, targets)
    actual = logits_of(injected, weights)
    torch.testing.assert_close(actual, whole, rtol=1e-5, atol=1e-5 * _size(whole))
    direction = torch.randn_like(whole)
    gradients = [
        torch.autograd.grad((logits * direction).sum(), injected)[0] for logits in (actual, whole)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5 * _size(gradients[1]))


@settings(deadline=None, max_examples=100)
@given(
    relaxed=weighted_links(),
    hidden=st.sampled_from([(), (3,), (8, 4), (2, 9, 5)]),
    layer_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_weights_of_zero_and_one_give_the_gcns_logits(
    relaxed: Relaxed, hidden: tuple[int, ...], layer_norm: bool, seed: int
) -> None:
    """Depths 1 to 4, with and without layer normalisation."""
    torch.manual_seed(seed)
    width = relaxed[0].x.shape[1]
    # A single column is only rounding after the normalisation, which amplifies it.
    _check_against_whole(_gcn(width, hidden, layer_norm and width > 1), relaxed)


@settings(deadline=None, max_examples=60)
@given(
    relaxed=weighted_links(),
    hidden=st.sampled_from([(3,), (8, 4), (2, 9, 5)]),
    eps=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 99),
)
def test_weights_of_zero_and_one_give_the_gins_logits(
    relaxed: Relaxed, hidden: tuple[int, ...], eps: float, seed: int
) -> None:
    """Depths 1 to 3."""
    torch.manual_seed(seed)
    _check_against_whole(_gin(relaxed[0].x.shape[1], hidden, eps), relaxed)


@pytest.mark.slow
@pytest.mark.parametrize("make", [_gcn, _gin])
@settings(deadline=None, max_examples=15)
@given(relaxed=weighted_links(), seed=st.integers(0, 99))
def test_gradients_are_those_of_finite_differences(make, relaxed: Relaxed, seed: int) -> None:
    """For weights and features in float64, between 0 and 1 and for absent links."""
    graph, weights, candidates, targets = relaxed
    torch.manual_seed(seed)
    model = make(graph.x.shape[1], (3, 2)).double()
    x = graph.x.double()
    logits_of = linked_logits(model, x, graph.edge_index, candidates, targets)
    features = torch.randn(weights.shape[0], x.shape[1], dtype=torch.float64).requires_grad_()
    for start in (weights.double(), torch.rand_like(weights, dtype=torch.float64)):
        assert torch.autograd.gradcheck(logits_of, (features, start.requires_grad_()))


@settings(deadline=None, max_examples=20)
@given(relaxed=weighted_links(), seed=st.integers(0, 9))
def test_weights_between_are_weights_of_edges(relaxed: Relaxed, seed: int) -> None:
    """Equal to the GCN called with the same edge weights."""
    graph, weights, candidates, targets = relaxed
    torch.manual_seed(seed)
    model = _gcn(graph.x.shape[1], (4, 3))
    every, between = torch.ones_like(weights), torch.rand_like(weights)
    injected = torch.randn(weights.shape[0], graph.x.shape[1])
    values = torch.cat([torch.ones(graph.edge_index.shape[1]), between.flatten().repeat(2)])
    edges = _with_links(graph, every, candidates)
    whole = model(torch.cat([graph.x, injected]), edges, values)[targets]
    logits_of = linked_logits(model, graph.x, graph.edge_index, candidates, targets)
    torch.testing.assert_close(logits_of(injected, between), whole, rtol=1e-5, atol=1e-5)
