"""The training loop: its views, when it stops, and the state that it keeps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.recall import Recall, average_precision
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import DataError, ModelError, UsageError
from grb_check.models.reference.gcn import GCN
from grb_check.training.nodes import (
    TrainingRun,
    TrainingSettings,
    fit_with,
    train,
)
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

DATASET = community_dataset()
CPU = torch.device("cpu")
FIRST_VERSION = 10.422819620510168  # see the test


class Recorder(nn.Module):
    """A convolution that records the number of nodes of each call, and whether it is training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(8, 3)
        self.seen: set[tuple[bool, bool, int]] = set()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.seen.add((self.training, torch.is_grad_enabled(), x.shape[0]))
        return self.conv(x, edge_index)


def run(
    module: nn.Module, settings: TrainingSettings, *, dataset: Dataset = DATASET, seed: int = 0
) -> TrainingRun:
    adapter = Adapter(module, "m", detect_convention(module, "forward", "m"))
    return train(adapter, dataset, settings, seed=seed, device=CPU)


def _accuracy(module: nn.Module) -> float:
    view = validation_view(DATASET)
    with torch.no_grad():
        predicted = module(view.x, view.edge_index).argmax(dim=1)
    return float((predicted == view.y)[view.val_mask].float().mean())


def test_gradients_see_training_nodes_alone_and_nothing_sees_test_nodes() -> None:
    """The training view in training mode, the validation view in evaluation mode."""
    module = Recorder()
    run(module, TrainingSettings(max_epochs=3))
    train_nodes, val_nodes = DATASET.train.numel(), DATASET.val.numel()
    assert module.seen == {(True, True, train_nodes), (False, False, train_nodes + val_nodes)}


def test_test_labels_and_features_do_not_matter() -> None:
    """Scrambled test nodes give the same model to the bit."""
    graph = DATASET.graph.clone()
    test = DATASET.test["full"]
    graph.x[test], graph.y[test] = 9.0, 0
    states = []
    for dataset in (DATASET, replace(DATASET, graph=graph)):
        torch.manual_seed(0)
        module = GCN(8, 3, (6,))
        run(module, TrainingSettings(max_epochs=5), dataset=dataset)
        states.append(torch.cat([p.flatten() for p in module.parameters()]))
    assert torch.equal(*states)


def test_the_best_epoch_is_restored() -> None:
    """After training, the validation accuracy is the one reported, in evaluation mode."""
    torch.manual_seed(0)
    module = GCN(8, 3, (16,), dropout=0.8)
    done = run(module, TrainingSettings(max_epochs=60, lr=0.05))
    assert not module.training
    assert _accuracy(module) == done.accuracy > 0.7
    assert done.best_epoch < done.epochs


def test_a_rare_class_is_chosen_by_how_well_it_is_ranked() -> None:
    """By accuracy the first epoch is the best of a model that calls no node positive: all are as
    accurate. By average precision a later one is, and its nodes of the class come first."""
    generator = torch.Generator().manual_seed(0)
    graph = DATASET.graph.clone()
    graph.y = (torch.rand(DATASET.num_nodes, generator=generator) < 0.15).long()
    graph.x = torch.randn(DATASET.num_nodes, 8, generator=generator)
    graph.x[:, 0] += 1.2 * graph.y
    plain = replace(DATASET, graph=graph)
    recall = Recall(positive=1, false_alarms=0.1)
    runs = []
    for dataset in (plain, replace(plain, recall=recall)):
        torch.manual_seed(0)
        module = Shy()
        adapter = Adapter(module, "shy", detect_convention(module, "forward", "shy"))
        settings = TrainingSettings(max_epochs=60)
        run = train(adapter, dataset, settings, seed=0, device=CPU)
        scores = recall.scores(module(graph.x, graph.edge_index).detach()[dataset.val]).numpy()
        positive = (graph.y[dataset.val] == 1).numpy()
        runs.append((run, average_precision(scores[positive], scores[~positive])))
    (by_accuracy, first), (by_precision, later) = runs
    assert by_accuracy.best_epoch == 1
    assert by_precision.best_epoch > 1
    assert by_precision.accuracy == pytest.approx(later, abs=1e-6)
    assert later > first


class Shy(nn.Module):
    """Never calls a node positive, whatever it learns of their order."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        positive = torch.sigmoid(self.layer(x)) - 1.5
        honest = torch.zeros_like(positive)
        return torch.cat([honest, positive, honest - 10], dim=1)


def test_training_stops_when_patience_is_spent() -> None:
    """A model that never improves is trained for one epoch plus the patience."""
    done = run(GCN(8, 3, (4,)), TrainingSettings(lr=0.0, patience=7))
    assert (done.epochs, done.best_epoch) == (8, 1)


def test_the_seed_alone_decides() -> None:
    """Dropout uses the seed; the global state has no effect and is not changed."""
    results = []
    for seed, noise in ((1, 0), (1, 99), (2, 0)):
        torch.manual_seed(0)
        module = GCN(8, 3, (16,))
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        run(module, TrainingSettings(max_epochs=10), seed=seed)
        assert torch.equal(before, torch.get_rng_state())
        results.append(torch.cat([p.detach().flatten() for p in module.parameters()]))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_frozen_parameters_stay() -> None:
    """The harness does not train parameters that the user froze."""
    module = GCN(8, 3, (4,))
    first = module.layers[0]
    first.requires_grad_(False)
    before = [p.clone() for p in module.parameters()]
    run(module, TrainingSettings(max_epochs=3))
    changed = [not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True)]
    assert changed == [False, False, True, True]


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    """The message names the epoch."""

    class Explodes(Recorder):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            logits = super().forward(x, edge_index)
            first = torch.zeros_like(logits)
            first[:, 0] = 3e38 * 0.9  # the loss of the other classes overflows
            return logits + first * 2 if self.training else logits

    with pytest.raises(ModelError, match=r"model m.*(infinity|loss is (inf|nan) in epoch 1)"):
        run(Explodes(), TrainingSettings())


def test_no_validation_nodes_is_an_error() -> None:
    """Early stopping needs them."""
    empty = replace(DATASET, val=torch.empty(0, dtype=torch.int64))
    with pytest.raises(DataError, match="communities has no validation nodes"):
        run(GCN(8, 3), TrainingSettings(), dataset=empty)


def test_fit_with_goes_by_the_training_loss_where_there_is_no_validation() -> None:
    """The model learns, and the best epoch is that of the lowest loss."""
    torch.manual_seed(0)
    module = GCN(8, 3, (16,), dropout=0.0)
    done = fit_with(module, TrainingSettings(max_epochs=30, warmup_epochs=1))(
        training_view(DATASET)
    )
    assert _accuracy(module) > 0.7
    assert isinstance(done, TrainingRun)
    assert done.best_epoch > 20


def test_training_gives_what_it_always_gave() -> None:
    """Stored surrogates are found by their recipe, so the loop must keep giving the same model.

    The sum of squares of the parameters is that of the first version of the loop; rounding differs
    between builds of torch.
    """
    torch.manual_seed(0)
    module = GCN(8, 3, (6,))
    run(module, TrainingSettings(max_epochs=20), seed=1)
    total = sum(float(p.detach().double().square().sum()) for p in module.parameters())
    assert total == pytest.approx(FIRST_VERSION, rel=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_epochs": 0},
        {"patience": 0},
        {"warmup_epochs": 0},
        {"lr": -1.0},
        {"lr": math.nan},
        {"weight_decay": -0.1},
        {"max_gradient_norm": 0.0},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """By name and value."""
    ((name, value),) = wrong.items()
    with pytest.raises(UsageError, match=f"{name} is {value}"):
        TrainingSettings(**wrong)
