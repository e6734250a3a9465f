"""Adversarial training against flips of edges: its attack, its penalty and its errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from ranked_states import check_ranked_states
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check import AdversarialSettings
from grb_check.attacks.modification.lrbcd import ModificationLrbcd
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.removable import local_budgets
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import GradientError, UsageError
from grb_check.models.defences import gprgnn as defence
from grb_check.models.reference.gcn import GCN
from grb_check.models.zoo import ZOO
from grb_check.training import structural_adversarial
from grb_check.training.nodes import TrainingSettings
from grb_check.training.structural_adversarial import (
    StructuralSettings,
    structural_adversarial_training,
)

DATASET = community_dataset()
VIEW, VALIDATION = training_view(DATASET), validation_view(DATASET)
SHORT = StructuralSettings(
    steps=2,
    block_size=50,
    measure_every=1,
    warmup=TrainingSettings(max_epochs=3),
    training=TrainingSettings(max_epochs=3, warmup_epochs=1),
)


class Perceptron(nn.Module):
    """Does not use the edges."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.linear(x)
        return logits


def fresh(seed: int = 0) -> GCN:
    torch.manual_seed(seed)
    return GCN(8, 3, (16,))


def state(module: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten().float() for value in module.state_dict().values()])


@pytest.fixture
def flipped(monkeypatch: pytest.MonkeyPatch) -> list[Data]:
    """The graphs that training and judging were on after an attack."""
    graphs: list[Data] = []
    plain = structural_adversarial.apply

    def spy(graph: Data, perturbation: object) -> Data:
        graphs.append(plain(graph, perturbation))
        return graphs[-1]

    monkeypatch.setattr(structural_adversarial, "apply", spy)
    return graphs


@pytest.mark.parametrize("share", [None, 0.5])
def test_flips_keep_both_budgets(flipped: list[Data], share: float | None) -> None:
    """Each attack on the training graph flips some pairs, at most as many as allowed."""
    chosen = replace(SHORT, budget=0.2, local_budget=share)
    structural_adversarial_training(fresh(), VIEW, settings=chosen, seed=0)
    clean = edge_set(VIEW)
    budget = round(0.2 * clean.codes.numel())
    for graph in flipped:
        other = edge_set(graph)
        flips = torch.cat([clean.codes[~other.has(clean.codes)], other.codes])
        flips = flips[~clean.has(flips) | ~other.has(flips)]
        assert 0 < flips.numel() <= budget
        at_nodes = torch.bincount(clean.ends(flips).flatten(), minlength=clean.num_nodes)
        if share is not None:
            assert (at_nodes <= local_budgets(VIEW, share)).all()


def test_nodes_without_a_label_are_trained_with_predicted_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Labels that are known stay; without self-training only nodes that have one are attacked."""
    seen: list[tuple[Tensor, Tensor]] = []
    plain = structural_adversarial._loss_under_attack

    def spy(ground: structural_adversarial._Ground, seed: int) -> object:
        seen.append((ground.nodes, ground.view.y))
        return plain(ground, seed)

    monkeypatch.setattr(structural_adversarial, "_loss_under_attack", spy)
    view = VIEW.clone()
    view.train_mask = torch.arange(view.num_nodes) % 2 == 0
    view.y = torch.where(view.train_mask, view.y, -1)
    for self_training in (True, False):
        chosen = replace(SHORT, self_training=self_training)
        structural_adversarial_training(fresh(), view, VALIDATION, settings=chosen, seed=0)
    (everyone, labels), (known, _) = seen
    assert everyone.numel() == view.num_nodes
    assert (labels >= 0).all()
    assert torch.equal(labels[view.train_mask], view.y[view.train_mask])
    assert torch.equal(known, view.train_mask.nonzero().squeeze(1))


def test_a_graph_without_room_for_flips_is_trained_on_as_it_is() -> None:
    """Every node has degree 1, so that half of its degree is no flip."""
    pairs = torch.arange(20).reshape(2, 10)
    view = Data(
        x=torch.randn(20, 8, generator=torch.Generator().manual_seed(0)),
        edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
        y=torch.arange(20) % 3,
    )
    done = structural_adversarial_training(fresh(), view, settings=SHORT, seed=0)
    assert done.epochs == 3


def test_a_model_without_gradients_for_edges_fails_before_the_warm_up() -> None:
    """With the attack's own error."""
    module = Perceptron()
    before = state(module)
    with pytest.raises(GradientError, match="no gradient for edges"):
        structural_adversarial_training(module, VIEW, settings=SHORT, seed=0)
    assert torch.equal(before, state(module))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("budget", 0.0, "above 0"),
        ("step_size", float("inf"), "finite"),
        ("local_budget", 1.5, "at most 1"),
        ("steps", 0, "at least 1"),
        ("block_size", 0, "at least 1"),
        ("measure_every", 0, "at least 1"),
        ("objective", "accuracy", "tanh_margin"),
        ("loss", "accuracy", "cross_entropy"),
    ],
)
def test_settings_out_of_range(name: str, value: object, allowed: str) -> None:
    """The message names the setting and what is allowed."""
    with pytest.raises(UsageError, match=rf"(?s){name}.*{allowed}"):
        replace(SHORT, **{name: value})


def test_settings_of_another_training_are_refused() -> None:
    """Before anything is trained."""
    with pytest.raises(
        UsageError, match=r"AdversarialSettings; give grb_check\.StructuralSettings"
    ):
        structural_adversarial_training(GCN(2, 2, (4,)), Data(), settings=AdversarialSettings())


def test_the_factory_trains_under_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPR-GNN on the views that it is given, with its own settings and penalty."""
    calls: list[tuple[object, ...]] = []

    def spy(*given: object, **named: object) -> None:
        calls.append((*given, named["settings"]))

    monkeypatch.setattr(defence, "structural_adversarial_training", spy)
    built = defence.gprgnn_at(8, 3, "planetoid-cora")
    built.fit(VIEW, VALIDATION)
    assert calls == [(built.module, VIEW, VALIDATION, defence.UNDER_ATTACK)]


def test_the_trained_model_is_of_this_version_of_the_search() -> None:
    """If LR-BCD's search gets another version, that of the model in zoo.py must be raised.

    Unless it trains the same model: the fourth finds something else for at most 20 flips or on
    fewer than 100 nodes, and graphs to train on are larger.
    """
    assert (ModificationLrbcd.version, ZOO["gprgnn_at"].version) == (4, 1)


def test_where_figures_are_recalls_states_are_compared_by_average_precision() -> None:
    check_ranked_states(partial(structural_adversarial_training, settings=SHORT, seed=0))
