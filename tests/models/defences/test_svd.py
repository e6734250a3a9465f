"""GCN-SVD: thin factors equal the dense truncated decomposition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data
from torch_geometric.utils import barabasi_albert_graph

from grb_check.models.defences.low_rank import DENSE, SPARE, low_rank_adjacency
from grb_check.models.defences.svd import GCNSVD


def dense_adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    return adjacency


def dense_logits(model: GCNSVD, x: Tensor, low_rank: Tensor) -> Tensor:
    """The GCN on a dense adjacency of low rank."""
    degrees = low_rank.sum(dim=1).clamp(min=0.0) + 1.0
    scale = degrees.rsqrt().diag()
    matrix = (scale @ (low_rank + torch.eye(x.shape[0], dtype=x.dtype)) @ scale).to(x.dtype)
    for number, layer in enumerate(model.gcn.layers):
        x = matrix @ (torch.relu(x) if number else x) @ layer.weight.T + layer.bias
    return x


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), rank=st.integers(1, 9))
def test_the_factors_are_the_best_of_their_rank(graph: Data, rank: int) -> None:
    """The error is that of Eckart & Young's theorem, and the columns are orthonormal."""
    adjacency = dense_adjacency(graph.edge_index, graph.num_nodes)
    vectors, values = low_rank_adjacency(graph.edge_index, graph.num_nodes, rank)
    count = values.numel()
    assert count <= rank
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(count, dtype=torch.float64))
    rest = torch.linalg.svdvals(adjacency)[rank:]
    error = torch.linalg.matrix_norm(adjacency - vectors @ values.diag() @ vectors.T)
    torch.testing.assert_close(error, rest.norm(), atol=1e-8, rtol=1e-6)


def test_logits_equal_those_of_the_dense_truncated_svd() -> None:
    """On a graph with distinct singular values, so that the truncation is unique."""
    torch.manual_seed(3)
    edge_index = barabasi_albert_graph(40, 3)
    adjacency = dense_adjacency(edge_index, 40)
    left, singular, right = torch.linalg.svd(adjacency)
    assert singular[4] - singular[5] > 1e-3
    truncated = (left[:, :5] * singular[:5]) @ right[:5]
    model = GCNSVD(6, 3, (4,), rank=5).double().eval()
    x = torch.randn(40, 6, dtype=torch.float64, requires_grad=True)
    actual, expected = model(x, edge_index), dense_logits(model, x, truncated)
    torch.testing.assert_close(actual, expected)
    gradients = [torch.autograd.grad(out.square().sum(), x)[0] for out in (actual, expected)]
    torch.testing.assert_close(*gradients)


def test_the_sparse_solver_agrees_with_the_dense_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above `DENSE` linked nodes the iterative solver is used, which is deterministic."""
    torch.manual_seed(0)
    edge_index = barabasi_albert_graph(DENSE + 50, 3)
    num_nodes = DENSE + 60  # ten without an edge
    vectors, values = low_rank_adjacency(edge_index, num_nodes, 5)
    again, _ = low_rank_adjacency(edge_index, num_nodes, 5)
    assert torch.equal(vectors, again)
    monkeypatch.setattr("grb_check.models.defences.low_rank.DENSE", num_nodes)
    expected, right = low_rank_adjacency(edge_index, num_nodes, 5)
    torch.testing.assert_close(values.sort().values, right.sort().values)
    torch.testing.assert_close(
        vectors @ values.diag() @ vectors.T, expected @ right.diag() @ expected.T
    )
    assert not vectors[DENSE + 50 :].any()


def weighted_pairs(num_nodes: int, seed: int) -> tuple[Tensor, Tensor]:
    """All pairs in both directions, of which most have weight 0, and their weights float64."""
    torch.manual_seed(seed)  # PyG's random graphs draw from numpy's state as well
    chosen = torch.rand(num_nodes, num_nodes) < 6 / num_nodes
    present = (chosen.triu(1) | chosen.triu(1).T).double()
    fractions = torch.rand(num_nodes, num_nodes, dtype=torch.float64)
    pairs = torch.combinations(torch.arange(num_nodes)).T
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    weights = present * (0.7 + 0.15 * (fractions + fractions.T))
    return edge_index, weights[edge_index[0], edge_index[1]]


@pytest.mark.parametrize("dense", [DENSE, 0])
def test_the_gradient_is_that_of_the_dense_truncation(
    monkeypatch: pytest.MonkeyPatch, dense: int
) -> None:
    """Also of pairs of weight 0, with both solvers; the gap at the cut is clear."""
    monkeypatch.setattr("grb_check.models.defences.low_rank.DENSE", dense)
    monkeypatch.setattr("grb_check.models.defences.low_rank.SPARE", 8)
    size, rank = 40, 5
    edge_index, weights = weighted_pairs(size, 7)
    weights.requires_grad_()
    model = GCNSVD(6, 3, (4,), rank=rank).double().eval()
    x = torch.randn(size, 6, dtype=torch.float64)
    adjacency = torch.zeros(size, size, dtype=torch.float64)
    adjacency = adjacency.index_put((edge_index[0], edge_index[1]), weights)
    values, vectors = torch.linalg.eigh((adjacency + adjacency.T) / 2)
    best = values.abs().argsort(descending=True)
    assert values[best[rank - 1]].abs() - values[best[rank]].abs() > 0.1
    leading = vectors[:, best[:rank]]
    expected = dense_logits(model, x, leading * values[best[:rank]] @ leading.T)
    actual = model(x, edge_index, weights)
    torch.testing.assert_close(actual, expected)
    gradients = [torch.autograd.grad(out.square().sum(), weights)[0] for out in (actual, expected)]
    largest = float(gradients[1].abs().max())
    torch.testing.assert_close(*gradients, rtol=0.0, atol=1e-4 * largest)


class _Largest(TorchDispatchMode):
    """Counts the entries of the largest tensor that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.layout == torch.strided:
            self.entries = max(self.entries, result.numel())
        return result


def test_twenty_thousand_nodes_need_no_square_matrix() -> None:
    """No tensor is larger than the features or the factors."""
    torch.manual_seed(0)
    num_nodes = 20_000
    ends = torch.randint(num_nodes, (2, 40_000))
    both = torch.cat([ends, ends.flip(0)], dim=1).unique(dim=1)
    edge_index = both[:, both[0] != both[1]]
    model = GCNSVD(32, 5, (16,), rank=16).eval()
    with _Largest() as largest, torch.no_grad():
        logits = model(torch.randn(num_nodes, 32), edge_index)
    assert torch.isfinite(logits).all()
    assert largest.entries <= num_nodes * 32


def test_the_gradient_needs_no_square_matrix() -> None:
    """No tensor is larger than the factors with the spare vectors, or those at some edges."""
    torch.manual_seed(0)
    num_nodes = 3_000
    edge_index = barabasi_albert_graph(num_nodes, 3)
    weights = torch.ones(edge_index.shape[1], requires_grad=True)
    model = GCNSVD(8, 3, (4,), rank=8).eval()
    with _Largest() as largest:
        loss = model(torch.randn(num_nodes, 8), edge_index, weights).square().sum()
        (gradient,) = torch.autograd.grad(loss, weights)
    assert gradient.abs().max() > 0
    assert largest.entries <= max(num_nodes * (8 + SPARE), edge_index.shape[1] * 8)
