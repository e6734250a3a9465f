"""MedianGCN equals PyG's median aggregation, and weights of edges make weighted medians."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from grb_check import SelfTrained
from grb_check.models.defences.median import MedianGCN, median_gcn


def of_pyg(model: MedianGCN, x: Tensor, edge_index: Tensor) -> Tensor:
    median = SimpleConv(aggr="median", combine_root="self_loop")
    for number, (layer, bias) in enumerate(zip(model.layers, model.biases, strict=True)):
        x = median(layer(torch.relu(x) if number else x), edge_index) + bias
    return x


def trained(num_features: int, seed: int) -> MedianGCN:
    """A model with biases."""
    torch.manual_seed(seed)
    model = MedianGCN(num_features, 2, (4, 3)).eval()
    for bias in model.biases:
        torch.nn.init.normal_(bias)
    return model


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_equals_pygs_median(graph: Data, seed: int) -> None:
    """Also with weights of one, and of zero and one."""
    model = trained(graph.num_features, seed)
    expected = of_pyg(model, graph.x, graph.edge_index)
    ones = torch.ones(graph.edge_index.shape[1])
    for weight in (None, ones):
        torch.testing.assert_close(model(graph.x, graph.edge_index, weight), expected)
    low, high = graph.edge_index.min(dim=0).values, graph.edge_index.max(dim=0).values
    chosen = torch.rand(9, 9)[low, high] < 0.6
    weights = chosen.float().requires_grad_()
    logits = model(graph.x, graph.edge_index, weights)
    torch.testing.assert_close(logits, of_pyg(model, graph.x, graph.edge_index[:, chosen]))
    (gradient,) = torch.autograd.grad(logits.square().sum(), weights)
    assert torch.isfinite(gradient).all()


@settings(deadline=None, max_examples=40)
@given(
    numbers=st.lists(st.integers(-3, 3), min_size=1, max_size=9),
    eighths=st.lists(st.integers(0, 8), min_size=9, max_size=9),
)
def test_weighted_medians_are_those_of_repeated_values(
    numbers: list[int], eighths: list[int]
) -> None:
    """A weight of k eighths counts like k copies, where the node itself has eight."""
    weights = torch.tensor(eighths[1 : len(numbers)]) / 8
    star = torch.stack([torch.zeros(len(weights)), torch.arange(1, len(numbers))]).long()
    model = MedianGCN(1, 1, ()).eval().requires_grad_(False)
    model.layers[0].weight.fill_(1.0)
    x = torch.tensor(numbers).float()[:, None]
    edge_index, both = torch.cat([star, star.flip(0)], dim=1), torch.cat([weights, weights])
    copies = torch.tensor([8, *eighths[1 : len(numbers)]])
    expected = x[:, 0].repeat_interleave(copies).median()
    assert model(x, edge_index, both)[0, 0] == expected


@pytest.mark.parametrize("dataset", ["planetoid-cora", "planetoid-citeseer", "elsewhere"])
def test_the_factory_has_the_published_settings(dataset: str) -> None:
    """Those of planetoid-cora for all other datasets."""
    model = median_gcn(5, 3, dataset)
    assert isinstance(model, SelfTrained)
    assert isinstance(model.module, MedianGCN)
    assert [layer.out_features for layer in model.module.layers] == [64, 3]
