"""The GCN: published size, equality with PyG's, gradients."""

from __future__ import annotations

import json
from importlib import resources

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import coalesce, to_undirected

from grb_check.models.reference.gcn import GCN, gcn

PUBLISHED = json.loads(
    resources.files("grb_check").joinpath("models/paper_figures/models.json").read_text("utf-8")
)["datasets"]


@st.composite
def edges(draw: st.DrawFn) -> tuple[int, Tensor]:
    """A number of nodes, and edges in both directions; often isolated nodes, or no edge."""
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node).filter(lambda p: p[0] != p[1]), max_size=20))
    edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    if pairs:
        edge_index = coalesce(to_undirected(edge_index, num_nodes=num_nodes))
    return num_nodes, edge_index


def _pyg_logits(model: GCN, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, nn.Linear)
        conv = GCNConv(layer.in_features, layer.out_features).to(x.dtype)
        conv.lin.weight, conv.bias = layer.weight, layer.bias
        x = conv(torch.relu(x) if number else x, edge_index, weight)
    return x


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_has_the_published_number_of_parameters(dataset: str) -> None:
    """GRB, Tables 6 to 10, for the published numbers of features and classes."""
    row = PUBLISHED[dataset]
    model = gcn(row["num_features"], row["num_classes"], dataset)
    assert sum(p.numel() for p in model.parameters()) == row["GCN"]["parameters"]


@settings(deadline=None, max_examples=60)
@given(graph=edges(), sizes=st.lists(st.integers(1, 9), max_size=3), seed=st.integers(0, 99))
def test_equals_pygs_gcn(graph: tuple[int, Tensor], sizes: list[int], seed: int) -> None:
    """The same weights give PyG's logits and gradients, on either path."""
    num_nodes, edge_index = graph
    torch.manual_seed(seed)
    model = GCN(5, 3, sizes).eval()
    x = torch.randn(num_nodes, 5, requires_grad=True)
    weight = torch.rand(edge_index.shape[1])
    out = torch.randn(num_nodes, 3)
    for given_weight in (None, weight, torch.ones_like(weight)):
        ours = model(x, edge_index, given_weight)
        theirs = _pyg_logits(model, x, edge_index, given_weight)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        inputs = [x, *model.parameters()]
        torch.testing.assert_close(
            torch.autograd.grad((ours * out).sum(), inputs),
            torch.autograd.grad((theirs * out).sum(), inputs),
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(graph=edges(), seed=st.integers(0, 99))
def test_gradients_of_weights_and_features_are_right(graph: tuple[int, Tensor], seed: int) -> None:
    """Against finite differences in float64; twice, for attacks that need it."""
    num_nodes, edge_index = graph
    torch.manual_seed(seed)
    model = GCN(3, 2, (4,)).double().eval()
    x = torch.randn(num_nodes, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(edge_index.shape[1], dtype=torch.float64) + 0.1
    weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda h, w: model(h, edge_index, w), (x, weight))
    assert torch.autograd.gradcheck(lambda h: model(h, edge_index), (x,))
    assert torch.autograd.gradgradcheck(lambda h: model(h, edge_index), (x,))
