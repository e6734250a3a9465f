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
    ALL_KINDS,
    CASE,
    CPU,
    DATASET,
    TARGETS,
    THREAT,
    Changing,
    Spy,
    entries,
    ready,
    train_once,
    trial,
)

from grb_check.attacks.budgets import threat_for
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.errors import BudgetError
from grb_check.evaluation import own_models
from grb_check.evaluation.own_models import OwnModels, TrainedModel
from grb_check.evaluation.surrogates import Ensemble
from grb_check.evaluation.trials import Measured, Trial, black_box, on_model
from grb_check.evaluation.white_box import white_box
from grb_check.gradients.victim import Victim
from grb_check.store.store import Store
from grb_check.victims.conventions import PLAIN, Adapter


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the harness's own models in the order of their trainings."""
    kinds: list[str] = []

    def train(dataset: Dataset, *, kind: str, seed: int, device: torch.device) -> Victim:
        kinds.append(kind)
        return train_once(dataset, kind, seed)

    monkeypatch.setattr(own_models, "surrogate", train)
    return kinds


def test_a_black_box_attack_sees_surrogate_and_guesses() -> None:
    """It sees neither the victim nor the victim's predictions."""
    attack, victim = Spy(), ready()
    given = trial(attack)
    black_box(given, victim)
    (seen,) = attack.seen
    surrogate = given.own.surrogate("gcn")
    test = DATASET.test["full"]
    assert seen.model is surrogate.victim
    assert torch.equal(seen.graph.y[test], surrogate.predicted[test])
    assert torch.equal(seen.graph.y[DATASET.train], DATASET.graph.y[DATASET.train])
    assert given.own.reference("gcn", 0).victim is not surrogate.victim


def test_an_attack_may_write_into_the_targets_that_it_is_given() -> None:
    """They are a copy: the victim is judged on the original targets."""

    @dataclass(frozen=True)
    class Writing(Spy):
        def perturb(
            self, graph: Data, threat: Threat, model: object, generator: torch.Generator
        ) -> Perturbation:
            made = super().perturb(graph, threat, model, generator)
            threat.targets.zero_()
            return made

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
    first, second = (spellings[place] for place in order)
    kept = black_box(named(first, tmp_path), ready()).perturbation
    found = black_box(named(second, tmp_path), ready())
    alone = black_box(named(second), ready()).perturbation
    assert found.measurement.from_store
    for one, other in zip(kept.tensors(), alone.tensors(), strict=True):
        assert torch.equal(one, other)


def test_variants_of_an_attack_start_from_the_same_links() -> None:
    """Their random draws are the same."""
    plain, harmonious = (
        black_box(named(f"pgd+iterations=2{more}"), ready()).perturbation for more in ("", "+hao")
    )
    assert torch.equal(plain.injected_edges, harmonious.injected_edges)
    assert not torch.equal(plain.injected_x, harmonious.injected_x)


@pytest.mark.parametrize("measure", [black_box, white_box])
def test_an_attack_over_its_budget_is_refused(
    measure: Callable[[Trial, TrainedModel], Measured],
) -> None:
    """Black-box and white-box attacks are verified alike."""
    with pytest.raises(BudgetError):
        measure(trial(Spy(count=3)), ready())


@pytest.mark.slow
def test_an_ensemble_is_trained_once_and_kept(tmp_path: Path, trained: list[str]) -> None:
    """One model of each kind; a warm run trains none and runs no attack."""
    cold, warm = Spy(surrogates=ALL_KINDS), Spy(surrogates=ALL_KINDS)
    first = black_box(trial(cold, tmp_path), ready())
    assert trained == ["gcn", "gcn_ln", "gin", "gcn"]  # the last is the reference
    assert len(entries(tmp_path)) == 6  # with the perturbation and the reference's scores
    second = black_box(trial(warm, tmp_path), ready())
    assert len(trained) == 4
    assert warm.seen == []
    assert (first.measurement.from_store, second.measurement.from_store) == (False, True)
    assert second.measurement.victim == first.measurement.victim
    assert second.measurement.references == first.measurement.references
    black_box(trial(warm, tmp_path), ready(), ("gcn", "gin"))
    assert trained[4:] == ["gin"]
    assert len(entries(tmp_path)) == 8  # another model, and its scores


def test_stored_members_serve_another_attack(tmp_path: Path, trained: list[str]) -> None:
    """The GCN is the same model alone and in an ensemble."""
    black_box(trial(Spy(), tmp_path), ready())
    assert trained == ["gcn", "gcn"]
    black_box(trial(Spy(surrogates=("gcn", "gin"), count=1), tmp_path), ready())
    assert trained == ["gcn", "gcn", "gin"]


def test_an_attack_sees_the_ensemble_and_its_guesses() -> None:
    """The members are in the order of the setting."""
    attack = Spy(surrogates=("gin", "gcn"))
    given = trial(attack)
    black_box(given, ready())
    (seen,) = attack.seen
    assert isinstance(seen.model, Ensemble)
    expected = tuple(given.own.surrogate(kind).victim for kind in ("gin", "gcn"))
    assert seen.model.members == expected
    test = DATASET.test["full"]
    with torch.no_grad():
        guessed = seen.model(DATASET.graph.x, DATASET.graph.edge_index).argmax(dim=1)
    assert torch.equal(seen.graph.y[test], guessed[test])


def refuse(*given: object) -> None:
    pytest.fail("the store was asked for a perturbation")


def test_a_perturbation_without_a_key_is_always_recomputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Surrogate, references and their scores are stored, the perturbation is not."""
    monkeypatch.setattr(Store, "load_perturbation", refuse)
    monkeypatch.setattr(Store, "save_perturbation", refuse)
    for _ in range(2):
        attack = Changing("black-box")
        assert not black_box(trial(attack, tmp_path), ready()).measurement.from_store
        assert attack.calls == 1
    assert len(entries(tmp_path)) == 3


def test_a_black_box_attack_that_leaves_budget_has_a_finding(tmp_path: Path) -> None:
    """One of two nodes is used; black-box cases have no other finding."""
    full, half = (
        black_box(trial(Spy(count=count), tmp_path), ready()).measurement for count in (2, 1)
    )
    assert full.diagnostics == ()
    assert [each.name for each in half.diagnostics] == ["budget-unused"]
    assert half.diagnostics[0].text == "1 of 2 injected nodes used (limit 90%)"
    assert full.method == half.method == "black-box"


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
    own = OwnModels(dataset, "", Store(None), CPU)
    case = Case("rings-and-stars", "full", "modification", "greedy")
    given = Trial(own, Greedy(), threat_for(dataset, "full", "modification"), case, 0)
    with pytest.raises(BudgetError, match="its budget is 1"):
        on_model(given, TrainedModel(victim, dataset.graph.y))
