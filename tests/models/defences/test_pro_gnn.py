"""Pro-GNN: the terms of its objective, what is learned, and what becomes of it on other graphs."""

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
from grb_check.errors import ModelError
from grb_check.models.defences import dense
from grb_check.models.defences.pro_gnn import (
    FROM_LABELS,
    LOW_RANK,
    NUCLEAR_EVERY,
    SPARSITY,
    ProGNN,
    StructureLearning,
    dense_adjacency,
    low_rank_prox,
    normalised,
    pro_gnn,
    roughness,
)


def symmetric(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(size, size, generator=generator, dtype=torch.float64)
    return (matrix + matrix.T).fill_diagonal_(0) / 2


def two_groups() -> Data:
    """Two groups of six nodes, with all edges within and one between; nodes 0 and 6 have labels."""
    pairs = [
        (a, b)
        for a in range(12)
        for b in range(12)
        if a != b and (a // 6 == b // 6 or {a, b} == {5, 11})
    ]
    y = torch.arange(12) // 6
    mask = torch.zeros(12, dtype=torch.bool)
    mask[[0, 6]] = True
    x = torch.eye(2)[y] + 0.1 * torch.rand(12, 2, generator=torch.Generator().manual_seed(0))
    return Data(x=x, edge_index=torch.tensor(pairs).T, y=y, train_mask=mask)


def learned(steps: int = NUCLEAR_EVERY) -> tuple[ProGNN, Data, StructureLearning]:
    torch.manual_seed(0)
    model, data = ProGNN(2, 2).eval(), two_groups()
    structure = StructureLearning(model, data, smoothness=0.1)
    for _ in range(steps):
        structure.step()
    return model, data, structure


@pytest.mark.parametrize("threshold", [0.0, 0.4, 99.0])
def test_the_proximal_operator_shrinks_singular_values(threshold: float) -> None:
    """By a singular value decomposition; some eigenvalues are below 0."""
    matrix = symmetric(9, 0)
    left, values, right = torch.linalg.svd(matrix)
    expected = left @ torch.diag((values - threshold).clamp(min=0)) @ right
    torch.testing.assert_close(low_rank_prox(matrix, threshold), expected)


@settings(deadline=None, max_examples=30)
@given(graph=graphs())
def test_roughness_is_the_trace_of_the_laplacian(graph: Data) -> None:
    """L = D^-1/2 (D - S) D^-1/2, with rows of 0 for isolated nodes."""
    x = graph.x.double()
    matrix = dense_adjacency(graph.edge_index, graph.num_nodes, None, like=x)
    degrees = matrix.sum(dim=1)
    scale = torch.where(degrees > 0, degrees.clamp(min=1e-9).rsqrt(), 0.0)
    laplacian = scale[:, None] * (torch.diag(degrees) - matrix) * scale
    expected = torch.trace(x.T @ laplacian @ x)
    torch.testing.assert_close(roughness(matrix, x @ x.T), expected, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(graph=graphs())
def test_dense_propagation_is_that_of_a_gcn(graph: Data) -> None:
    """For an adjacency of zeros and ones, isolated nodes included."""
    torch.manual_seed(0)
    model = ProGNN(graph.num_features, 3).eval()
    matrix = dense_adjacency(graph.edge_index, graph.num_nodes, None, like=graph.x)
    through = model.gcn.through(graph.x, normalised(matrix))
    torch.testing.assert_close(through, model.gcn(graph.x, graph.edge_index), atol=1e-4, rtol=1e-4)


def test_steps_keep_the_constraints_and_lower_the_objective() -> None:
    """Symmetric, from 0 to 1, no self-loops, smaller singular values; of lower objective than A."""
    model, data, structure = learned(100)
    learned_adjacency, clean = structure.learned, structure.adjacency
    torch.testing.assert_close(learned_adjacency, learned_adjacency.T)
    assert 0 <= float(learned_adjacency.min()) <= float(learned_adjacency.max()) <= 1
    assert float(learned_adjacency.diagonal().abs().max()) == 0

    def objective(matrix: Tensor) -> float:
        logits = model.gcn.through(data.x, normalised(matrix))
        labels = F.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        terms = [
            (clean - matrix).square().sum(),
            SPARSITY * matrix.sum(),
            LOW_RANK * torch.linalg.matrix_norm(matrix, "nuc"),
            FROM_LABELS * labels,
            0.1 * roughness(matrix, data.x @ data.x.T),
        ]
        return float(torch.stack(terms).sum().detach())

    assert objective(learned_adjacency) < objective(clean)
    assert float(torch.linalg.matrix_norm(learned_adjacency, "nuc")) < float(
        torch.linalg.matrix_norm(clean, "nuc")
    )


def test_gradients_of_weights_are_right() -> None:
    """On the training's graph, against finite differences in float64."""
    model, data, _ = learned()
    model = model.double()
    size = data.edge_index.shape[1]
    weight = torch.full((size,), 0.9, dtype=torch.float64, requires_grad=True)
    x = data.x.double()
    assert torch.autograd.gradcheck(lambda w: model(x, data.edge_index, w), (weight,))


@pytest.mark.slow
@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 99))
def test_the_factory_trains_itself(seed: int) -> None:
    """The best state's weights belong to the best state's structure."""
    torch.manual_seed(seed)
    built = pro_gnn(2, 2, "planetoid-cora")
    assert isinstance(built, SelfTrained)
    data = two_groups()
    built.fit(data)
    assert not built.module.training
    assert (built.module(data.x, data.edge_index).argmax(dim=1) == data.y).all()
    assert built.module.change.shape == (12, 12)


def test_large_graphs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any step, with what it would take and what is allowed."""
    monkeypatch.setattr(dense, "MOST_BYTES", 5_000)
    with pytest.raises(ModelError, match=r"structure learning of a graph of 12 nodes takes .* GiB"):
        pro_gnn(2, 2).fit(two_groups())
