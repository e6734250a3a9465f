"""Soft Median GDC equals dense computations, of the diffusion, the medians and the gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from grb_check import SelfTrained
from grb_check.errors import UsageError
from grb_check.models.defences import diffusion
from grb_check.models.defences.soft_median import SoftMedianGDC, soft_median_gdc, soft_medians


def dense_diffusion(adjacency: Tensor, alpha: float) -> Tensor:
    size = adjacency.shape[0]
    looped = adjacency + torch.eye(size, dtype=adjacency.dtype)
    scale = looped.sum(dim=1).rsqrt()
    matrix = scale[:, None] * looped * scale
    inverse = torch.linalg.inv(torch.eye(size, dtype=adjacency.dtype) - (1 - alpha) * matrix)
    return alpha * inverse


def dense_logits(model: SoftMedianGDC, x: Tensor, adjacency: Tensor) -> Tensor:
    """The formulas of both modules with N x N matrices and a loop over nodes and columns."""
    entries = dense_diffusion(adjacency, model.alpha)
    retained = torch.zeros_like(entries)
    for i, row in enumerate(entries):
        best = row.detach().argsort(descending=True)[: model.neighbours]
        retained[i, best] = 1.0
    weights = entries * retained
    weights = weights / weights.sum(dim=1, keepdim=True)
    for number, (layer, bias) in enumerate(zip(model.layers, model.biases, strict=True)):
        x = layer(torch.relu(x) if number else x)
        out = []
        for a in weights:
            order = x.detach().argsort(dim=0)
            upto = a.detach()[order].cumsum(dim=0)
            position = (upto < 0.5 * a.detach().sum()).sum(dim=0, keepdim=True)
            median = x.gather(0, order.gather(0, position))
            distance = (x - median).square().sum(dim=1).clamp(min=1e-30).sqrt()
            s = torch.exp(-distance / (model.temperature * math.sqrt(x.shape[1]))) * a
            out.append(s @ x / s.sum() * a.sum())
        x = torch.stack(out) + bias
    return x


def weighted_adjacency(num_nodes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs in both directions, their weights, many of them 0, and the adjacency."""
    generator = torch.Generator().manual_seed(seed)
    fractions = torch.rand(num_nodes, num_nodes, generator=generator, dtype=torch.float64)
    fractions = (fractions + fractions.T - 0.9).clamp(min=0).fill_diagonal_(0)
    pairs = torch.combinations(torch.arange(num_nodes)).T
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return edge_index, fractions[edge_index[0], edge_index[1]], fractions


@pytest.mark.parametrize("per_entry", [0, 10_000])
@pytest.mark.parametrize("neighbours", [4, 99])
def test_logits_and_gradients_equal_the_dense_formulas(
    monkeypatch: pytest.MonkeyPatch, neighbours: int, per_entry: int
) -> None:
    """Also those of pairs of weight 0, and both ways to compute the gradient."""
    monkeypatch.setattr(diffusion, "PER_ENTRY", per_entry)
    monkeypatch.setattr(diffusion, "GATHERED", 100)
    torch.manual_seed(0)
    edge_index, weights, _ = weighted_adjacency(12, 1)
    model = SoftMedianGDC(5, 3, (4,), neighbours=neighbours).double().eval()
    for bias in model.biases:
        torch.nn.init.normal_(bias)
    x = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    weights.requires_grad_()
    adjacency = torch.zeros(12, 12, dtype=torch.float64)
    adjacency = adjacency.index_put((edge_index[0], edge_index[1]), weights)
    actual, expected = model(x, edge_index, weights), dense_logits(model, x, adjacency)
    torch.testing.assert_close(actual, expected)
    (ours, of_x), (theirs, right) = (
        torch.autograd.grad(out.square().sum(), (weights, x)) for out in (actual, expected)
    )
    torch.testing.assert_close(of_x, right)
    # Which of the two directions has how much of an edge's gradient is arbitrary.
    torch.testing.assert_close(ours.view(2, -1).sum(dim=0), theirs.view(2, -1).sum(dim=0))
    assert bool((ours[weights == 0] != 0).any())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"neighbours": 0}, "neighbours is 0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float], message: str) -> None:
    """Each by its name and value."""
    with pytest.raises(UsageError, match=message):
        SoftMedianGDC(3, 2, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("dataset", ["planetoid-cora", "planetoid-citeseer", "elsewhere"])
def test_the_factory_has_the_published_settings(dataset: str) -> None:
    """Those of planetoid-cora for all other datasets."""
    model = soft_median_gdc(5, 3, dataset)
    assert isinstance(model, SelfTrained)
    module = model.module
    assert isinstance(module, SoftMedianGDC)
    assert [layer.out_features for layer in module.layers] == [64, 3]
    assert (module.alpha, module.neighbours, module.temperature) == (0.15, 64, 0.5)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_a_neighbour_of_weight_zero_at_the_median_changes_nothing(size: float) -> None:
    """However far the others are from it; such rows fill up the neighbourhoods of small parts."""
    h = size * torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    near = torch.arange(4).repeat(4, 1)
    weights = torch.tensor([0.5, 0.5, 0.0, 0.0]).repeat(4, 1)
    h.requires_grad_()
    weights.requires_grad_()
    medians = soft_medians(h, near, weights, 0.5)
    torch.testing.assert_close(medians, (size * torch.tensor([0.5, 0.5])).expand(4, 2))
    gradients = torch.autograd.grad(medians.sum(), (h, weights))
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
