"""GPR-GNN: the polynomial with dense matrices, weights of edges, its training."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check import SelfTrained
from grb_check.gradients.victim import Victim
from grb_check.models.defences.gprgnn import GPRGNN, gprgnn
from grb_check.training.nodes import adapter_of

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def dense_logits(model: GPRGNN, x: Tensor, edge_index: Tensor) -> Tensor:
    """The formula of the module's docstring with N x N matrices."""
    adjacency = torch.eye(x.shape[0], dtype=x.dtype)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    scale = adjacency.sum(dim=1).rsqrt().diag()
    first, last = model.layers
    h = last(torch.relu(first(x)))
    terms = [
        gamma * torch.linalg.matrix_power(scale @ adjacency @ scale, power) @ h
        for power, gamma in enumerate(model.propagation.gamma)
    ]
    return torch.stack(terms).sum(dim=0)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), k=st.integers(1, 4), seed=st.integers(0, 99))
def test_equals_the_dense_formula(graph: Data, k: int, seed: int) -> None:
    """For any coefficients, also with weights of one."""
    torch.manual_seed(seed)
    model = GPRGNN(graph.num_features, 2, (4,), k=k).double().eval()
    torch.nn.init.normal_(model.propagation.gamma)
    x = graph.x.double()
    expected = dense_logits(model, x, graph.edge_index)
    ones = torch.ones(graph.edge_index.shape[1], dtype=x.dtype)
    for weight in (None, ones):
        torch.testing.assert_close(model(x, graph.edge_index, weight), expected)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), data=st.data())
def test_an_edge_of_weight_zero_is_no_edge(graph: Data, data: st.DataObject) -> None:
    """Gradients are finite, also where a node has no other edge."""
    first, second = graph.edge_index
    pairs = graph.edge_index[:, first < second]
    selected = data.draw(st.lists(st.booleans(), min_size=pairs.shape[1], max_size=pairs.shape[1]))
    present = torch.tensor(selected, dtype=torch.bool)
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = present.double().repeat(2).requires_grad_()
    model = GPRGNN(graph.num_features, 3, (4,), k=3).double().eval()
    logits = model(graph.x.double(), both, weight)
    torch.testing.assert_close(logits, model(graph.x.double(), both[:, present.repeat(2)]))
    (gradient,) = torch.autograd.grad(logits.square().sum(), weight)
    assert gradient.isfinite().all()


def test_gradients_of_weights_are_right() -> None:
    """Against finite differences."""
    torch.manual_seed(2)
    model = GPRGNN(3, 2, (4,), k=4).double().eval()
    x = torch.rand(4, 3, dtype=torch.float64)
    pairs = torch.tensor([[0, 1, 0], [1, 2, 3]])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = torch.tensor([1.0, 0.3, 1e-3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w.repeat(2)), (weight,))


def test_attacks_have_the_gradients_of_all_pairs() -> None:
    """Of the propagation's closed form, not of random pairs alone."""
    torch.manual_seed(0)
    model = GPRGNN(3, 2, (8,)).eval().requires_grad_(False)
    edges = torch.randint(30, (2, 60))
    edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    edges = edges[:, edges[0] != edges[1]]
    victim = Victim(adapter_of(model), 2)
    gradients = victim.pair_gradients(torch.rand(30, 3), edges, torch.arange(5), Tensor.sum)
    assert gradients is not None


@pytest.mark.slow
def test_the_factory_trains_itself() -> None:
    """On an easy graph, and then answers for a graph of another size."""
    torch.manual_seed(0)
    built = gprgnn(2, 2, "planetoid-cora")
    assert isinstance(built, SelfTrained)
    y = torch.arange(12) % 2
    data = Data(x=torch.eye(2)[y], edge_index=PATH * 2, y=y)
    built.fit(data)
    assert not built.module.training
    assert (built.module(data.x, data.edge_index).argmax(dim=1) == y).all()
    assert built.module(data.x[:5], PATH).shape == (5, 2)
