"""One attack in one repeat: what black-box attacks are shown, and what is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from small_graphs import set_of_graphs
from torch import nn
from torch_geometric.data import Data
from trial_spies import (
    CASE,
    CPU,
    DATASET,
    TARGETS,
    THREAT,
    Spy,
    ready,
    train_once,
    trial,
)

from grb_check.attacks.budgets import threat_for
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.errors import BudgetError
from grb_check.evaluation import harness_models
from grb_check.evaluation.black_box import black_box
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.perturbations import on_model
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box import white_box
from grb_check.gradients.victim import Victim
from grb_check.store.store import Store
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

pytestmark = pytest.mark.usefixtures("short_trainings")


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the harness's own models in the order of their trainings."""
    kinds: list[str] = []

    def train(dataset: Dataset, *, kind: str, seed: int, device: torch.device) -> Victim:
        kinds.append(kind)
        return train_once(dataset, kind, seed)

    monkeypatch.setattr(harness_models, "surrogate", train)
    return kinds


def test_a_black_box_attack_sees_surrogate_and_guesses() -> None:
    """It sees neither the victim nor the victim's predictions."""
    attack, victim = Spy(), ready()
    given = trial(attack)
    black_box(given, victim)
    (seen,) = attack.seen
    surrogate = given.harness.surrogate("gcn")
    test = DATASET.test["full"]
    assert seen.model is surrogate.victim
    assert torch.equal(seen.graph.y[test], surrogate.predicted[test])
    assert torch.equal(seen.graph.y[DATASET.train], DATASET.graph.y[DATASET.train])
    assert given.harness.reference("gcn", 0).victim is not surrogate.victim


def test_an_attack_may_write_into_the_targets_that_it_is_given() -> None:
    """They are a copy: the victim is judged on the original targets."""

    @dataclass(frozen=True)
    class Writing(Spy):
        def perturb(
            self, graph: Data, threat: Threat, model: object, generator: torch.Generator
        ) -> Perturbation:
            perturbation = super().perturb(graph, threat, model, generator)
            threat.targets.zero_()
            return perturbation

    targets, victim = TARGETS.clone(), ready()
    given = replace(trial(Writing()), threat=replace(THREAT, targets=targets))
    written = black_box(given, victim)
    assert torch.equal(targets, TARGETS)
    assert written.measurement.victim == black_box(trial(Spy()), victim).measurement.victim


def named(name: str, folder: Path | None = None) -> Trial:
    """The trial of a built-in attack."""
    attack = load_attack("injection", name)
    return replace(trial(attack, folder), case=replace(CASE, attack=name))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["short first", "long first"])
def test_two_spellings_of_one_attack_are_one_attack(tmp_path: Path, order: tuple[int, int]) -> None:
    """The second comes from the store, and equals what is computed without a store."""
    spellings = "fgsm+patience=2", "fgsm+iterations=1000+patience=2"
    first, second = (spellings[index] for index in order)
    expected = black_box(named(first, tmp_path), ready())
    result = black_box(named(second, tmp_path), ready())
    alone = black_box(named(second), ready())
    assert result.measurement.from_store
    assert expected.measurement.perturbation == alone.measurement.perturbation


@pytest.mark.parametrize("measure", [black_box, white_box])
def test_an_attack_over_its_budget_is_refused(
    measure: Callable[[Trial, TrainedModel], RepeatResult],
) -> None:
    """Black-box and white-box attacks are verified alike."""
    with pytest.raises(BudgetError):
        measure(trial(Spy(count=3)), ready())


def test_stored_members_serve_another_attack(tmp_path: Path, trained: list[str]) -> None:
    """The GCN is the same model alone and in an ensemble."""
    black_box(trial(Spy(), tmp_path), ready())
    assert trained == ["gcn", "gcn"]
    black_box(trial(Spy(surrogates=("gcn", "gin"), count=1), tmp_path), ready())
    assert trained == ["gcn", "gcn", "gin"]


def test_a_black_box_attack_that_leaves_budget_has_a_finding(tmp_path: Path) -> None:
    """One of two nodes is used; black-box cases have no other finding."""
    victim, dataset = ready(), _labelled_by(ready(), shift=0)
    full, half = (
        black_box(trial(Spy(count=count), tmp_path, dataset), victim).measurement
        for count in (2, 1)
    )
    assert full.diagnostics == ()
    assert [finding.name for finding in half.diagnostics] == ["budget-unused"]
    assert half.diagnostics[0].text == "1 of 2 injected nodes used (limit 90%)"
    assert full.method == half.method == "black-box"


def test_an_attack_that_leaves_nothing_needs_no_more_budget() -> None:
    half = trial(Spy(count=1), dataset=_labelled_by(ready(), shift=1))
    assert black_box(half, ready()).measurement.diagnostics == ()


def _labelled_by(model: TrainedModel, shift: int) -> Dataset:
    """Return the dataset on which every answer of a model is right, or wrong with a shift."""
    graph = DATASET.graph.clone()
    graph.y = (model.predicted + shift) % 3
    return replace(DATASET, graph=graph)


def test_an_attack_on_graphs_cannot_raise_their_budgets() -> None:
    """It is given a copy of the threat; the referee has the original."""

    class Greedy:
        name, scenario, knowledge = "greedy", "modification", "white-box"

        def perturb(
            self, graph: Data, threat: Threat, model: object, generator: torch.Generator
        ) -> Perturbation:
            assert threat.batch is not None
            assert threat.edge_budgets is not None
            threat.edge_budgets.fill_(99)
            threat.batch.zero_()
            forth = graph.edge_index[0] < graph.edge_index[1]
            return Perturbation(removed_edges=graph.edge_index[:, forth][:, : threat.edge_budget])

    dataset = graph_dataset(set_of_graphs())
    victim = Victim(Adapter(nn.Identity(), "m", PLAIN, batch=dataset.graph.batch), 2)
    models = HarnessModels(dataset, "", Store(None), CPU)
    case = Case("rings-and-stars", "full", "modification", "greedy")
    given = Trial(models, Greedy(), threat_for(dataset, "full", "modification"), case, 0)
    with pytest.raises(BudgetError, match="its budget is 1"):
        on_model(given, TrainedModel(victim, dataset.graph.y))
