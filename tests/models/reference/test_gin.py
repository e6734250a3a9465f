"""The GIN: published size, equality with PyG's, alternating form, gradients."""

from __future__ import annotations

import json
from importlib import resources

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv

from grb_check.models.reference.gin import GIN, gin

PUBLISHED = json.loads(
    resources.files("grb_check").joinpath("models/paper_figures/models.json").read_text("utf-8")
)["datasets"]
HIDDEN = st.lists(st.integers(1, 6), min_size=1, max_size=3)
SEEDS = st.integers(0, 99)
EPS = st.sampled_from([0.0, 0.5, -1.0])


def _model(graph: Data, hidden: list[int], eps: float = 0.0) -> GIN:
    """In evaluation mode, its normalisation as after some training."""
    model = GIN(graph.num_features, 3, hidden, eps=eps).eval()
    for norm in model.norms:
        assert isinstance(norm, nn.BatchNorm1d)
        norm.running_mean = torch.randn(norm.num_features)
        norm.running_var = torch.rand(norm.num_features) + 0.5
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return model


def _pyg_logits(model: GIN, x: Tensor, edge_index: Tensor) -> Tensor:
    for first, norm, second in zip(model.first, model.norms, model.second, strict=True):
        mlp = nn.Sequential(first, norm, nn.ReLU(), second)
        x = torch.relu(GINConv(mlp, eps=model.eps)(x, edge_index))
    return model.readout(x)


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_has_the_published_number_of_parameters_but_for_eps(dataset: str) -> None:
    """GRB, Tables 6 to 10: they count an eps for each hidden layer; ours is fixed."""
    row = PUBLISHED[dataset]
    model = gin(row["num_features"], row["num_classes"], dataset)
    count = sum(p.numel() for p in model.parameters())
    assert count + len(row["GIN"]["hidden_sizes"]) == row["GIN"]["parameters"]


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), hidden=HIDDEN, eps=EPS, seed=SEEDS)
def test_equals_pygs_gin(graph: Data, hidden: list[int], eps: float, seed: int) -> None:
    """The same weights give PyG's logits and gradients, with weights of one and without."""
    torch.manual_seed(seed)
    model = _model(graph, hidden, eps)
    x = graph.x.clone().requires_grad_()
    theirs = _pyg_logits(model, x, graph.edge_index)
    direction = torch.randn_like(theirs)
    expected = torch.autograd.grad((theirs * direction).sum(), [x, *model.parameters()])
    for weight in (None, torch.ones(graph.edge_index.shape[1])):
        ours = model(x, graph.edge_index, weight)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        gradients = torch.autograd.grad((ours * direction).sum(), [x, *model.parameters()])
        torch.testing.assert_close(gradients, expected, rtol=1e-3, atol=1e-3)


@settings(deadline=None, max_examples=20)
@given(graph=graphs(max_nodes=5), seed=SEEDS)
def test_gradients_of_weights_and_features_are_right(graph: Data, seed: int) -> None:
    """Against finite differences in float64."""
    torch.manual_seed(seed)
    model = _model(graph, [3, 2]).double()
    x = torch.randn_like(graph.x, dtype=torch.float64).requires_grad_()
    weight = torch.rand(graph.edge_index.shape[1], dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda h, w: model(h, graph.edge_index, w), (x, weight))
    assert torch.autograd.gradcheck(lambda h: model(h, graph.edge_index), (x,))
