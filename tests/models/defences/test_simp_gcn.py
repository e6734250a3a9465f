"""SimP-GCN: neighbours by similarity, the layers with dense matrices, its pairs and training."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check import SelfTrained
from grb_check.models.defences.simp_gcn import (
    SimPGCN,
    simp_gcn,
)

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def some_features(seed: int, rows: int = 9) -> Tensor:
    """Without ties; one row is zero."""
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x[rows // 2] = 0.0
    return x


def dense_similar(x: Tensor, k: int) -> Tensor:
    """D_f^-1/2 A_f D_f^-1/2 as N x N matrices."""
    unit = F.normalize(x, dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(-2.0)
    nearest = torch.zeros_like(cosines)
    best = cosines.topk(min(k, x.shape[0] - 1), dim=1)
    nearest.scatter_(1, best.indices, best.values.clamp(min=0.0))
    sums = nearest.sum(dim=1)
    scale = torch.where(sums > 0, sums.pow(-0.5), 0.0).diag()
    return scale @ nearest @ scale


def dense_logits(model: SimPGCN, x: Tensor, edge_index: Tensor) -> Tensor:
    """The formula of the module's docstring with N x N matrices."""
    adjacency = torch.eye(x.shape[0], dtype=x.dtype)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    scale = adjacency.sum(dim=1).rsqrt().diag()
    near, alike = scale @ adjacency @ scale, dense_similar(x, model.neighbours)
    h = x
    for layer in (model.first, model.second):
        s = torch.sigmoid(layer.share(h)).flatten().diag()
        rest = torch.eye(x.shape[0], dtype=x.dtype) - s
        p = s @ near + rest @ alike + layer.gamma * layer.loop(h).flatten().diag()
        h = p @ h @ layer.linear.weight.T + layer.bias
        h = h if layer is model.second else torch.relu(h)
    return h


def shuffled(model: SimPGCN) -> SimPGCN:
    """All parameters drawn anew, in evaluation mode."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model.double().eval()


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_equals_the_dense_formula(graph: Data, k: int, seed: int) -> None:
    """Also with weights of one, and with fewer nodes than neighbours."""
    torch.manual_seed(seed)
    model = shuffled(SimPGCN(4, 2, 3, neighbours=k, gamma=0.5))
    x = some_features(seed, graph.num_nodes)
    expected = dense_logits(model, x, graph.edge_index)
    ones = torch.ones(graph.edge_index.shape[1], dtype=x.dtype)
    for weight in (None, ones):
        torch.testing.assert_close(model(x, graph.edge_index, weight), expected)


def test_gradients_are_right() -> None:
    """Of weights of edges and of features, against finite differences."""
    torch.manual_seed(2)
    model = shuffled(SimPGCN(4, 2, 3, neighbours=2))
    x = some_features(3, 5)
    x[2] = torch.tensor([1.0, 0.2, -0.3, 0.4])
    x.requires_grad_()
    pairs = torch.tensor([[0, 1, 0], [1, 2, 3]])
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = torch.tensor([1.0, 0.3, 1e-3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, f: model(f, both, w.repeat(2)), (weight, x))


@pytest.mark.slow
def test_the_factory_trains_itself() -> None:
    """On an easy graph, and then answers for a graph of another size."""
    torch.manual_seed(0)
    built = simp_gcn(2, 2, "planetoid-cora")
    assert isinstance(built, SelfTrained)
    y = torch.arange(12) % 2
    data = Data(x=torch.eye(2)[y], edge_index=PATH * 2, y=y)
    built.fit(data)
    assert not built.module.training
    assert (built.module(data.x, data.edge_index).argmax(dim=1) == y).all()
    assert built.module(data.x[:5], PATH).shape == (5, 2)


@pytest.mark.slow
def test_a_graph_without_pairs_can_be_trained_on() -> None:
    """There is nothing to predict the similarity of."""
    built = simp_gcn(2, 2)
    built.fit(
        Data(
            x=torch.eye(2)[:1], edge_index=torch.empty(2, 0, dtype=torch.int64), y=torch.tensor([1])
        )
    )
    assert torch.isfinite(next(built.module.parameters())).all()
