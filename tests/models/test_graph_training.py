"""Mini-batches of graphs equal PyG's; the training loops and their errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sets_of_graphs import graph_batches, rings_and_triangles
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool

from grb_check.errors import DataError, ModelError
from grb_check.models.graph_training import classifier_fit, descend_once
from grb_check.models.published import GraphSettings
from grb_check.training.graph_unions import graphs_of

SETTINGS = GraphSettings(lr=0.05, epochs=3, layers=1, width=4, batch_size=4)


class Linear(nn.Module):
    """Logits from the sum of a graph's features; counts its calls in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        self.calls += self.training
        logits: Tensor = self.linear(global_add_pool(x, batch))
        return logits


@settings(deadline=None, max_examples=15)
@given(data=graph_batches(), seed=st.integers(0, 99))
def test_picked_graphs_are_those_of_a_batch_of_them(data: Batch, seed: int) -> None:
    """For any selection and order, as `Batch.from_data_list` joins them; edges may be unsorted."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(data.num_graphs, generator=generator)[: 1 + seed % data.num_graphs]
    expected = Batch.from_data_list([data[index] for index in ids.tolist()])
    order = torch.randperm(data.edge_index.shape[1], generator=generator)
    shuffled = Data(x=data.x, edge_index=data.edge_index[:, order], batch=data.batch, y=data.y)
    picked = graphs_of(shuffled).picked(ids)
    for name in ("x", "edge_index", "batch", "y"):
        assert torch.equal(picked.__dict__[name], expected[name]), name
    assert torch.equal(picked.starts, expected.ptr[:-1])
    assert picked.count == expected.num_graphs


def test_the_most_accurate_epoch_stays() -> None:
    """Chosen on validation graphs; here they have swapped classes."""
    torch.manual_seed(0)
    data = rings_and_triangles(8)
    others = data.clone()
    module = Linear()
    run = classifier_fit(module, SETTINGS)(data, others)
    assert 1 <= run.best_epoch <= run.epochs == SETTINGS.epochs
    with torch.no_grad():
        guesses = module(others.x, others.edge_index, others.batch).argmax(dim=1)
    assert float((guesses == others.y).float().mean()) == pytest.approx(run.accuracy)
    assert not module.training
    assert module.calls == SETTINGS.epochs * 2


def test_training_is_the_seeds() -> None:
    """All randomness is from the global generator."""
    data = rings_and_triangles(10)
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        module = Linear()
        classifier_fit(module, SETTINGS)(data)
        states.append(module.linear.weight.detach().clone())
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    """Before any parameter changes."""
    module = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(module.parameters())
    with pytest.raises(ModelError, match="loss is inf"):
        descend_once(optimizer, module(torch.tensor([torch.inf])).abs().sum())


def test_what_is_no_batch_is_refused() -> None:
    """For a single graph the message names the missing field."""
    data = Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0]))
    with pytest.raises(DataError, match="no tensor batch"):
        graphs_of(data)


def test_one_graph_is_too_few() -> None:
    """There would be nothing to compare it with."""
    with pytest.raises(DataError, match="1 graph"):
        graphs_of(Batch.from_data_list([rings_and_triangles(1)[0]]))
