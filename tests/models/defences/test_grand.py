"""GRAND: mixed-order propagation and loss against direct computations, DropNode, training."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check import SelfTrained, TrainingSettings, UsageError
from grb_check.models.defences.grand import GRAND, Consistency, consistency_training, grand

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def mixed_features(x: Tensor, edge_index: Tensor, order: int) -> Tensor:
    """The mean of A^^k X with N x N matrices."""
    adjacency = torch.eye(x.shape[0], dtype=x.dtype)
    adjacency[edge_index[0], edge_index[1]] = 1.0
    scale = adjacency.sum(dim=1).rsqrt().diag()
    matrix = scale @ adjacency @ scale
    powers = [torch.linalg.matrix_power(matrix, k) @ x for k in range(order + 1)]
    return torch.stack(powers).mean(dim=0)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), order=st.integers(0, 4), weighted=st.booleans())
def test_equals_the_perceptron_on_propagated_features(
    graph: Data, order: int, weighted: bool
) -> None:
    """In evaluation mode, also with weights of one."""
    torch.manual_seed(0)
    model = GRAND(graph.num_features, 3, 5, order=order, dropnode=0.3).double().eval()
    x = graph.x.double()
    features = 0.7 * mixed_features(x, graph.edge_index, order)
    expected = model.last(torch.relu(model.first(features)))
    ones = torch.ones(graph.edge_index.shape[1], dtype=x.dtype) if weighted else None
    torch.testing.assert_close(model(x, graph.edge_index, ones), expected)


def test_the_loss_of_two_samples_by_hand() -> None:
    """Predictions (0.8, 0.2) and (0.4, 0.6): mean (0.6, 0.4), sharpened (9/13, 4/13)."""
    outputs = [torch.tensor([[0.8, 0.2]]).log(), torch.tensor([[0.4, 0.6]]).log()]
    truth = torch.tensor([0])
    known = -torch.tensor([0.8, 0.4]).log().mean()
    sharp = torch.tensor([9 / 13, 4 / 13])
    far = torch.stack([(rows.exp()[0] - sharp).square().sum() for rows in outputs]).mean()
    loss = Consistency(samples=2, weight=3.0, temperature=0.5).loss(outputs, slice(None), truth)
    torch.testing.assert_close(loss, known + 3.0 * far)


def test_gradients_of_weights_are_right() -> None:
    """Against finite differences, with weights near 0 and an isolated node."""
    torch.manual_seed(2)
    model = GRAND(3, 2, 4, order=3).double().eval()
    x = torch.rand(5, 3, dtype=torch.float64)
    pairs = torch.tensor([[0, 1, 0], [1, 2, 3]])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    weight = torch.tensor([1.0, 0.3, 1e-3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: model(x, edge_index, w.repeat(2)), (weight,))


@pytest.mark.parametrize("dropnode", [1.0, -0.1, float("nan")])
def test_the_probability_of_dropnode_has_limits(dropnode: float) -> None:
    """The message names the value."""
    with pytest.raises(UsageError, match=f"dropnode is {dropnode}; it must be at least 0"):
        GRAND(3, 2, dropnode=dropnode)


def test_training_is_the_seeds_and_keeps_the_lowest_validation_loss() -> None:
    """All randomness is from the global generator."""
    y = torch.arange(12) % 2
    data = Data(x=torch.eye(2)[y], edge_index=PATH * 2, y=y)
    short = TrainingSettings(max_epochs=30, patience=30, warmup_epochs=1)
    weights = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        model = GRAND(2, 2, 4)
        loss = Consistency(samples=2, weight=1.0, temperature=0.5)
        run = consistency_training(model, loss, data, data, settings=short)
        with torch.no_grad():
            lowest = F.cross_entropy(model(data.x, data.edge_index), y)
        assert run.accuracy == pytest.approx(-float(lowest), abs=1e-6)
        weights.append(model.first.weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("dataset", ["planetoid-cora", "planetoid-citeseer", "another"])
def test_the_factory_trains_itself(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an easy graph, and then answers for a graph of another size."""
    short = TrainingSettings(max_epochs=60, patience=60, warmup_epochs=1)
    monkeypatch.setattr("grb_check.models.defences.grand.TRAINING", short)
    torch.manual_seed(0)
    built = grand(2, 2, dataset)
    assert isinstance(built, SelfTrained)
    y = torch.arange(12) % 2
    data = Data(x=torch.eye(2)[y], edge_index=PATH * 2, y=y)
    built.fit(data)
    assert not built.module.training
    assert (built.module(data.x, data.edge_index).argmax(dim=1) == y).all()
    assert built.module(data.x[:5], PATH).shape == (5, 2)
