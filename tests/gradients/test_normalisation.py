"""The normalised adjacency: all forms equal the dense formula."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check.gradients.normalisation import Normalisation

EXPONENTS = st.sampled_from([(-0.5, -0.5), (-1.0, -1.0), (0.0, 0.0)])
LOOPS = st.sampled_from([0.0, 1.0, 2.5])


def dense(norm: Normalisation, graph: Data, weights: Tensor) -> Tensor:
    """factor D^left (A + loop I) D^right as an N x N matrix."""
    matrix = norm.loop * torch.eye(graph.num_nodes)
    matrix[graph.edge_index[0], graph.edge_index[1]] = weights
    degrees = matrix.sum(0)
    left, right = (
        torch.where(degrees > 0, degrees**exponent, float(exponent == 0))
        for exponent in (norm.left, norm.right)
    )
    return norm.factor * left[:, None] * matrix * right


@settings(deadline=None, max_examples=60)
@given(graph=graphs(), exponents=EXPONENTS, loop=LOOPS, seed=st.integers(0, 99))
def test_all_forms_are_the_dense_formula(
    graph: Data, exponents: tuple[float, float], loop: float, seed: int
) -> None:
    """Fixed, weighted and as a sparse matrix; with isolated nodes."""
    norm = Normalisation(*exponents, loop)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(graph.num_nodes, 2, generator=generator)
    source, target = graph.edge_index
    weights = 0.1 + ((source + target + source * target + seed) % 7) / 7  # both directions alike
    ones = torch.ones(source.numel())
    edges, size = graph.edge_index, graph.num_nodes
    torch.testing.assert_close(norm.fixed(edges, size)(x), dense(norm, graph, ones) @ x)
    expected = dense(norm, graph, weights)
    torch.testing.assert_close(norm.weighted(edges, size, weights)(x), expected @ x)
    torch.testing.assert_close(norm.matrix(edges, size, weights).to_dense(), expected)
