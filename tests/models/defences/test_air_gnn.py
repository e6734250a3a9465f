"""AirGNN: the paper's iteration with dense matrices, its objective, weights of edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check import UsageError
from grb_check.models.defences.air_gnn import AdaptivePropagation
from grb_check.models.defences.decoupled import Decoupled
from grb_check.models.defences.edge_differences import Incidence


def dense_matrix(edge_index: Tensor, num_nodes: int) -> Tensor:
    adjacency = torch.eye(num_nodes, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    scale = adjacency.sum(dim=1).rsqrt().diag()
    return scale @ adjacency @ scale


def dense_steps(h: Tensor, edge_index: Tensor, share: float, k: int) -> Tensor:
    """The paper's equations, node by node."""
    matrix = dense_matrix(edge_index, h.shape[0])
    threshold = share / (2 * (1 - share))
    f = h
    for _ in range(k):
        y = matrix @ f
        rows = []
        for node in range(h.shape[0]):
            far = (y[node] - h[node]).norm()
            factor = max(0.0, 1 - threshold / float(far)) if far > 0 else 0.0
            rows.append((1 - factor) * h[node] + factor * y[node])
        f = torch.stack(rows)
    return f


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), share=st.sampled_from([0.1, 0.5, 0.9]), size=st.sampled_from([1.0, 20.0]))
def test_equals_the_papers_iteration(graph: Data, share: float, size: float) -> None:
    """Whether all, some or none of the nodes keep their own prediction."""
    torch.manual_seed(0)
    h = size * torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    model = AdaptivePropagation(share=share, k=5)
    edges = Incidence.of(graph.edge_index, graph.num_nodes, torch.float64).weighted(None)
    torch.testing.assert_close(model(h, edges), dense_steps(h, graph.edge_index, share, 5))


def test_gradients_of_weights_are_right() -> None:
    """Against finite differences, with weights near 0 and an isolated node."""
    torch.manual_seed(2)
    model = Decoupled(3, 2, (4,), AdaptivePropagation(k=4)).double().eval()
    x = 20 * torch.rand(5, 3, dtype=torch.float64)
    pairs = torch.tensor([[0, 1, 0], [1, 2, 3]])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = torch.tensor([1.0, 0.3, 1e-3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w.repeat(2)), (weight,))
    (gradient,) = torch.autograd.grad(model(x, edge_index, weight.repeat(2)).sum(), weight)
    assert gradient.all()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_the_share_has_limits(share: float) -> None:
    """The message names the value."""
    with pytest.raises(UsageError, match=f"share is {share}; it must be above 0 and below 1"):
        AdaptivePropagation(share=share)
