"""R-GCN equals a dense computation, and is random in training only."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.models.defences.rgcn import RGCN


def dense_logits(model: RGCN, x: Tensor, edge_index: Tensor) -> Tensor:
    """The formula of the module's docstring with N x N matrices."""
    adjacency = torch.eye(x.shape[0])
    adjacency[edge_index[0], edge_index[1]] = 1.0
    degrees = adjacency.sum(dim=1)
    of_means = degrees.pow(-0.5).diag() @ adjacency @ degrees.pow(-0.5).diag()
    of_variances = degrees.pow(-1).diag() @ adjacency @ degrees.pow(-1).diag()
    mean = variance = x
    last = len(model.means) - 1
    for number in range(last + 1):
        mean, variance = model.means[number](mean), F.relu(model.variances[number](variance))
        alpha = torch.exp(-model.gamma * variance)
        mean = of_means @ ((mean if number == last else F.elu(mean)) * alpha)
        variance = of_variances @ (variance * alpha**2)
    return mean


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), gamma=st.sampled_from([0.0, 1.0, 3.0]), seed=st.integers(0, 99))
def test_equals_the_dense_formula(graph: Data, gamma: float, seed: int) -> None:
    """Also with weights of one."""
    torch.manual_seed(seed)
    model = RGCN(graph.num_features, 2, (4, 3), gamma=gamma).eval()
    expected = dense_logits(model, graph.x, graph.edge_index)
    ones = torch.ones(graph.edge_index.shape[1])
    for weight in (None, ones):
        logits = model(graph.x, graph.edge_index, weight)
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


def test_draws_logits_in_training_mode_only() -> None:
    """From Gaussians around the means, which are its output in evaluation mode."""
    torch.manual_seed(0)
    edge_index = torch.tensor([[0, 1], [1, 0]])
    model = RGCN(3, 2, (8,), dropout=0.0).double()
    x = torch.rand(2, 3, dtype=torch.float64)
    with torch.no_grad():
        drawn = torch.stack([model.train()(x, edge_index) for _ in range(500)])
        mean = model.eval()(x, edge_index)
    deviation = drawn.std(dim=0)
    assert deviation.max() > 0.01
    # Six standard errors: fails by chance in one of 10^8 runs, and the seed is fixed.
    assert ((drawn.mean(dim=0) - mean).abs() <= 6 * deviation / 500**0.5).all()
