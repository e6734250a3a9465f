"""ElasticGNN: the paper's iteration with dense matrices, its objective, weights of edges."""

from __future__ import annotations

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
from grb_check.models.defences.elastic_gnn import ElasticPropagation

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def dense_parts(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The normalised adjacency and the normalised incidence matrix, one row for each edge."""
    adjacency = torch.eye(num_nodes, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    scale = adjacency.sum(dim=1).rsqrt().diag()
    rows = [(a, b) for a, b in edge_index.T.tolist() if a < b]
    incidence = torch.zeros(len(rows), num_nodes, dtype=torch.float64)
    for number, (a, b) in enumerate(rows):
        incidence[number, a], incidence[number, b] = 1.0, -1.0
    return scale @ adjacency @ scale, incidence @ scale


def dense_steps(model: ElasticPropagation, h: Tensor, edge_index: Tensor) -> Tensor:
    """The paper's Figure 1 as it stands there, with Z for W U."""
    matrix, incidence = dense_parts(edge_index, h.shape[0])
    gamma = 1 / (1 + model.lambda2)
    beta = 1 / (2 * gamma)
    x, z = h, h.new_zeros(incidence.shape[0], h.shape[1])
    for _ in range(model.k):
        y = gamma * h + (1 - gamma) * matrix @ x
        ahead = y - gamma * incidence.T @ z
        z = z + beta * incidence @ ahead
        z = z * (model.lambda1 / z.norm(dim=1, keepdim=True).clamp(min=model.lambda1))
        x = y - gamma * incidence.T @ z
    return x


def objective(model: ElasticPropagation, f: Tensor, h: Tensor, edge_index: Tensor) -> float:
    matrix, incidence = dense_parts(edge_index, h.shape[0])
    smooth = (f * (f - matrix @ f)).sum()
    lengths = (incidence @ f).norm(dim=1).sum()
    return float((f - h).square().sum() / 2 + model.lambda1 * lengths + model.lambda2 / 2 * smooth)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), lambda1=st.sampled_from([0.05, 3.0]), lambda2=st.sampled_from([0.0, 3.0]))
def test_equals_the_papers_iteration(graph: Data, lambda1: float, lambda2: float) -> None:
    """With N x N matrices; on graphs without edges these are the perceptron's logits."""
    torch.manual_seed(0)
    model = ElasticPropagation(lambda1=lambda1, lambda2=lambda2, k=5)
    h = 10 * torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    edges = Incidence.of(graph.edge_index, graph.num_nodes, torch.float64).weighted(None)
    expected = dense_steps(model, h, graph.edge_index)
    torch.testing.assert_close(model(h, edges), expected)
    if not graph.edge_index.numel():
        torch.testing.assert_close(model(h, edges), h)


def test_the_steps_minimise_the_objective() -> None:
    """No row that is a little off has a lower one, after many steps."""
    torch.manual_seed(1)
    h = 5 * torch.randn(3, 2, dtype=torch.float64)
    model = ElasticPropagation(lambda1=0.7, lambda2=2.0, k=500)
    result = model(h, Incidence.of(PATH, 3, torch.float64).weighted(None))
    least = objective(model, result, h, PATH)
    for _ in range(50):
        other = result + 0.01 * torch.randn_like(result)
        assert objective(model, other, h, PATH) > least


@pytest.mark.parametrize("lambda1", [0.1, 3.0])
def test_gradients_of_weights_are_right(lambda1: float) -> None:
    """Against finite differences, inside and outside of the ball; at weights near 0 too."""
    torch.manual_seed(2)
    model = Decoupled(3, 2, (4,), ElasticPropagation(lambda1=lambda1, k=4)).double().eval()
    x = 20 * torch.rand(4, 3, dtype=torch.float64)
    pairs = torch.tensor([[0, 1, 0], [1, 2, 3]])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = torch.tensor([1.0, 0.3, 1e-3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w.repeat(2)), (weight,))


@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.0, 3.0), (3.0, -1.0), (float("nan"), 3.0)])
def test_weights_of_terms_have_limits(lambda1: float, lambda2: float) -> None:
    """The message names both."""
    with pytest.raises(UsageError, match=r"lambda1 is .* and lambda2 .*must be above 0"):
        ElasticPropagation(lambda1=lambda1, lambda2=lambda2)
