"""RUNG: the paper's steps with dense matrices, its objective, weights of edges."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check import UsageError
from grb_check.models.defences.decoupled import Decoupled
from grb_check.models.defences.edge_differences import Incidence
from grb_check.models.defences.rung import LEAST_SQUARE, UnbiasedPropagation


def dense_steps(model: UnbiasedPropagation, h: Tensor, edge_index: Tensor) -> Tensor:
    """The paper's equation 8 with N x N matrices."""
    num_nodes = h.shape[0]
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=h.dtype)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    degrees = adjacency.sum(dim=1) + 1
    matrix = adjacency / degrees.sqrt() / degrees.sqrt()[:, None]
    f = h
    for _ in range(model.k):
        scaled = f / degrees.sqrt()[:, None]
        squares = (scaled[:, None] - scaled[None]).square().sum(dim=2) + LEAST_SQUARE
        trust = (0.5 / squares.sqrt() - 0.5 / model.gamma).clamp(min=0)
        q = (trust * adjacency).sum(dim=1) / degrees
        f = ((trust * matrix) @ f + model.residual * h) / (q + model.residual)[:, None]
    return f


def objective(model: UnbiasedPropagation, f: Tensor, h: Tensor, edge_index: Tensor) -> float:
    """With the penalty that V is the derivative of, the root of y^2 + 0.01 in the place of y."""
    degrees = torch.bincount(edge_index[0], minlength=h.shape[0]) + 1.0
    first, second = edge_index[:, edge_index[0] < edge_index[1]]
    scaled = f / degrees.sqrt()[:, None]
    y = ((scaled[first] - scaled[second]).square().sum(dim=1) + LEAST_SQUARE).sqrt()
    y = y.clamp(max=model.gamma)
    penalty = (y - y.square() / (2 * model.gamma)).sum()
    return float(penalty + model.residual * (f - h).square().sum())


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), gamma=st.sampled_from([0.5, 6.0]), size=st.sampled_from([0.1, 10.0]))
def test_equals_the_papers_steps(graph: Data, gamma: float, size: float) -> None:
    """Whether edges are kept or lose their weight."""
    torch.manual_seed(0)
    h = size * torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    model = UnbiasedPropagation(gamma=gamma, k=5)
    edges = Incidence.of(graph.edge_index, graph.num_nodes, torch.float64).weighted(None)
    torch.testing.assert_close(model(h, edges), dense_steps(model, h, graph.edge_index))


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_every_step_lowers_the_objective(graph: Data, seed: int) -> None:
    """The paper's theorem 2."""
    torch.manual_seed(seed)
    h = 3 * torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    edges = Incidence.of(graph.edge_index, graph.num_nodes, torch.float64).weighted(None)
    reached = [
        objective(model, model(h, edges), h, graph.edge_index)
        for model in (UnbiasedPropagation(gamma=2.0, k=k) for k in range(6))
    ]
    assert all(after <= before + 1e-9 for before, after in pairwise(reached))


def test_an_edge_of_very_different_ends_has_no_influence() -> None:
    """Its ends keep their predictions."""
    h = torch.tensor([[0.0], [100.0]])
    edges = Incidence.of(torch.tensor([[0, 1], [1, 0]]), 2, torch.float32).weighted(None)
    torch.testing.assert_close(UnbiasedPropagation(gamma=6.0)(h, edges), h)
    assert not torch.allclose(UnbiasedPropagation(gamma=200.0)(h, edges), h, atol=1.0)


def test_gradients_of_weights_are_right_in_evaluation_mode() -> None:
    """Through the reweighting too, against finite differences, with weights near 0."""
    torch.manual_seed(2)
    model = Decoupled(3, 2, (4,), UnbiasedPropagation(k=4)).double().eval()
    x = 20 * torch.rand(5, 3, dtype=torch.float64)
    pairs = torch.tensor([[0, 1, 0], [1, 2, 3]])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = torch.tensor([1.0, 0.3, 1e-3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w.repeat(2)), (weight,))


@pytest.mark.parametrize(("gamma", "residual"), [(0.0, 0.1), (6.0, 0.0), (float("nan"), 0.1)])
def test_parameters_have_limits(gamma: float, residual: float) -> None:
    """The message names both."""
    with pytest.raises(UsageError, match=r"gamma is .* and residual .*; both must be above 0"):
        UnbiasedPropagation(gamma=gamma, residual=residual)
