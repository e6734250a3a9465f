"""Differences along edges: the normalised Laplacian, its gradients, and both directions as one."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check.models.defences.edge_differences import Incidence


def dense_laplacian(edge_index: Tensor, weights: Tensor, num_nodes: int) -> Tensor:
    """I - D^-1/2 (A + I) D^-1/2 as an N x N matrix."""
    adjacency = torch.eye(num_nodes, dtype=weights.dtype)
    adjacency = adjacency.index_put((edge_index[0], edge_index[1]), weights)
    scale = adjacency.sum(dim=1).rsqrt().diag()
    return torch.eye(num_nodes, dtype=weights.dtype) - scale @ adjacency @ scale


def random_weights(edge_index: Tensor, seed: int) -> Tensor:
    """Weights float64 [e] from 0 to 1, the same in both directions."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(20, 20, dtype=torch.float64, generator=generator).triu()
    return (drawn + drawn.T)[edge_index[0], edge_index[1]]


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_equals_the_dense_laplacian(graph: Data, seed: int) -> None:
    """In value and in the gradients of rows and weights, for edges in any order."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(graph.edge_index.shape[1], generator=generator)
    edge_index = graph.edge_index[:, order]
    weights = random_weights(edge_index, seed).requires_grad_()
    h = torch.rand(graph.num_nodes, 3, dtype=torch.float64, generator=generator).requires_grad_()
    edges = Incidence.of(edge_index, graph.num_nodes, torch.float64).weighted(weights)
    result = edges.laplacian(h)
    expected = dense_laplacian(edge_index, weights, graph.num_nodes) @ h
    torch.testing.assert_close(result, expected)
    of_found, of_expected = (
        torch.autograd.grad(out.square().sum(), (h, weights)) for out in (result, expected)
    )
    torch.testing.assert_close(of_found[0], of_expected[0])
    # The dense matrix tells directions apart, and their gradients are halves of an edge's.
    reverse = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    reverse[edge_index[1], edge_index[0]] = of_expected[1]
    both = (of_expected[1] + reverse[edge_index[0], edge_index[1]]) / 2
    torch.testing.assert_close(of_found[1], both)
