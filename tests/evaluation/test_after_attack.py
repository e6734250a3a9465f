"""Predictions after an attack on all targets together, or on each of them."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from alternating import gcn_of, victim_of
from strategies import graph_of, pairs
from tiny import write_dataset
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn.models import GAT, GCN

import grb_check
from grb_check import datasets
from grb_check.attacks import budgets
from grb_check.attacks.threat import Perturbation, Threat, apply, joined
from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError, UsageError
from grb_check.evaluation.after_attack import perturbed, predicted_after, predicted_if_poisoned
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.victims import TrainedVictims
from grb_check.store.perturbation_bytes import from_bytes
from grb_check.store.place import open_store, place_of
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject

pytestmark = pytest.mark.usefixtures("short_trainings")
PATH = [(node, node + 1) for node in range(39)]
X = torch.randn((40, 4), generator=torch.Generator().manual_seed(0))
GRAPH = graph_of(40, PATH, x=X, y=torch.arange(40) % 3)
TARGETS = torch.tensor([3, 17, 30])
EACH = Threat(
    scenario="modification", targets=TARGETS, edge_budget=9, target_budgets=torch.full((3,), 3)
)
FOR_EACH = joined(
    [
        Perturbation(added_edges=pairs([(3, 20), (3, 25)]), removed_edges=pairs([(3, 4)])),
        Perturbation(),
        Perturbation(added_edges=pairs([(3, 30), (9, 30)])),
    ]
)


def trained(module: nn.Module) -> TrainedModel:
    victim = victim_of(module.eval(), 3)
    return TrainedModel(victim, predict(victim, GRAPH, 0))


MODELS = {
    "receptive field": lambda: GCN(4, 8, 2, 3),
    "attention": lambda: GAT(4, 8, 2, 3),
    "whole graph": lambda: gcn_of(4, (8,)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_each_target_is_classified_on_its_own_graph(kind) -> None:
    """As on the whole graph with its flips alone; for models that change their mind."""
    changed = 0
    for seed in range(10):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = trained(MODELS[kind]())
        predicted = predicted_after(model, GRAPH, FOR_EACH, EACH, 0)
        for index, target in enumerate(TARGETS.tolist()):
            attacked = apply(GRAPH, FOR_EACH.of_target(index))
            assert predicted[index] == predict(model.victim, attacked, 0)[target]
        changed += int((predicted != model.predicted[TARGETS]).sum())
    assert changed


class Net(torch.nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv = GCNConv(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class Blind(torch.nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(x)


@pytest.fixture
def source(tmp_path: Path) -> datasets.Source:
    folder = write_dataset(tmp_path / "tiny")
    return datasets.find(str(folder), datasets.Places(training="transductive"))


def measured(
    source: datasets.Source,
    scenario: str,
    attack: str,
    model: type = Net,
    store: Store | None = None,
) -> RepeatResult:
    """One repeat, with the references GCN and the one that ignores the graph."""
    evaluator = Evaluator(store=store or Store(None), device="cpu")
    case = Case("tiny", "full", scenario, attack)
    return evaluator.repeat(as_subject(model), source, case, 1, repeats=2)


def test_the_model_is_trained_on_the_graph_of_the_same_attack_as_evasion(
    source: datasets.Source,
) -> None:
    """From the same seed; the clean figure is that of the clean graph."""
    poisoned = measured(source, "poisoning", "dice+budget=0.2")
    evaded = measured(source, "modification", "dice+budget=0.2")
    assert poisoned.measurement.perturbation == evaded.measurement.perturbation
    assert poisoned.measurement.victim.clean == evaded.measurement.victim.clean
    dataset = Evaluator(store=Store(None), device="cpu").dataset(source)
    assert isinstance(dataset, Dataset)
    attacked = perturbed(dataset, from_bytes(poisoned.perturbation))
    victims = TrainedVictims(attacked, source, torch.device("cpu"))
    predicted = victims.get(as_subject(Net), 1).predicted
    nodes = dataset.test["full"]
    expected = float((predicted[nodes] == dataset.graph.y[nodes]).float().mean())
    assert poisoned.measurement.victim.attacked == pytest.approx(expected, abs=1e-7)


def test_a_poisoned_graph_has_the_form_of_a_dataset(source: datasets.Source) -> None:
    """Both directions of each edge, sorted; with injected nodes at its end, without a label."""
    result = measured(source, "poisoning", "tdgia")
    dataset = Evaluator(store=Store(None), device="cpu").dataset(source)
    graph = perturbed(dataset, from_bytes(result.perturbation)).graph
    new = graph.num_nodes - dataset.num_nodes
    assert new > 0
    assert (graph.y[-new:] == -1).all()
    codes = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
    assert (codes.diff() > 0).all()
    assert graph.is_undirected()


@pytest.mark.parametrize("attack", ["dice", "metattack+steps=3", "meta-prbcd+iterations=3"])
def test_a_model_that_ignores_the_graph_loses_nothing(source: datasets.Source, attack: str) -> None:
    """Exactly; nor does the reference that ignores it."""
    measurement = measured(source, "poisoning", attack, Blind).measurement
    for scores in (measurement.victim, measurement.references["mlp"]):
        assert scores.right_before == scores.right_after


def test_references_are_trained_on_the_poisoned_graph_too(
    source: datasets.Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And their scores in the store are not those under the same flips as evasion."""
    monkeypatch.undo()  # whole trainings, of which the two leave different targets right
    store = open_store(place_of(tmp_path / "store", "store"))
    evaded = measured(source, "modification", "dice+budget=0.9", store=store).measurement
    poisoned = measured(source, "poisoning", "dice+budget=0.9", store=store).measurement
    again = measured(source, "poisoning", "dice+budget=0.9", store=store).measurement
    assert poisoned.from_store  # the perturbation of the evasion
    assert poisoned.references["gcn"].clean == evaded.references["gcn"].clean
    assert poisoned.references["gcn"].right_after != evaded.references["gcn"].right_after
    assert poisoned.references == again.references


def test_what_cannot_be_poisoned_says_so(source: datasets.Source) -> None:
    """A finished model."""
    finished = grb_check.Trained(Net(8, 3))
    with pytest.raises(ModelError, match="not trained here"):
        measured(source, "poisoning", "dice", finished)  # type: ignore[arg-type]
    once = grb_check.Encoder(Net(8, 3), pretrain=lambda data: None)
    with pytest.raises(ModelError, match="not trained here"):
        measured(source, "poisoning", "dice", once)  # type: ignore[arg-type]


@pytest.fixture
def in_part(source: datasets.Source) -> datasets.Source:
    """Models learn on the graph of the training nodes."""
    return replace(source, places=replace(source.places, training="inductive"))


@pytest.mark.parametrize(
    "attack", ["dice", "pgd", "random-flips", "prbcd+iterations=3", "metattack+steps=3"]
)
def test_what_models_see_of_the_test_nodes_is_clean_if_they_learn_on_the_others(
    in_part: datasets.Source, attack: str
) -> None:
    """All changed edges connect training nodes, and what is learnt on them changes the answers."""
    result = measured(in_part, "poisoning", f"{attack}+budget=0.9")
    dataset = Evaluator(store=Store(None), device="cpu").dataset(in_part)
    assert isinstance(dataset, Dataset)
    perturbation = from_bytes(result.perturbation)
    changed = torch.cat([perturbation.added_edges, perturbation.removed_edges], dim=1)
    assert changed.numel()
    assert torch.isin(changed, dataset.train).all()
    scores = result.measurement.references["gcn"]
    assert scores.right_before != scores.right_after


def test_injection_is_refused_if_models_do_not_see_it(in_part: datasets.Source) -> None:
    """It is beside the test nodes."""
    with pytest.raises(UsageError, match="--grb-training=transductive"):
        measured(in_part, "poisoning", "tdgia")


def test_each_target_has_a_training_of_its_own(
    source: datasets.Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a graph with the flips that are made for it alone; one without flips has none."""
    monkeypatch.setattr(budgets, "MOST_POISONED", 3)
    perturbation = from_bytes(measured(source, "poisoning", "nettack").perturbation)
    evaluator = Evaluator(store=Store(None), device="cpu")
    dataset = evaluator.dataset(source)
    assert isinstance(dataset, Dataset)
    model = evaluator.victim(as_subject(Net), source, 1)
    seen: list[Tensor] = []

    def train(attacked: AnyDataset) -> TrainedModel:
        seen.append(attacked.graph.edge_index)
        result = copy.copy(model)
        result.predicted = torch.full_like(model.predicted, len(seen) + 9)
        return result

    targets = dataset.test["full"][:4]
    spied = copy.copy(model)
    spied.train = train
    predicted = predicted_if_poisoned(spied, dataset, targets, perturbation)
    assert predicted.tolist() == [10, 11, 12, int(model.predicted[targets[3]])]
    for target, edges in enumerate(seen):
        expected = perturbed(dataset, perturbation.of_target(target)).graph.edge_index
        assert torch.equal(edges, expected)


def test_evaluate_learns_on_the_whole_graph_to_be_poisoned(tmp_path: Path) -> None:
    """Without being told."""
    folder = write_dataset(tmp_path / "tiny")
    outcome = grb_check.evaluate(Net, dataset=folder, attack="poisoning/rnd", repeats=1)
    assert outcome.case == Case("tiny", "full", "poisoning", "rnd")
    with pytest.raises(UsageError, match="--grb-training=transductive"):
        grb_check.evaluate(Net, dataset=folder, attack="poisoning/sga", training="inductive")


def test_an_attacked_graph_is_not_the_one_that_a_user_gave() -> None:
    """A model that is trained on it is not asked on the clean one."""
    dataset = Dataset(
        name="d",
        graph=GRAPH,
        train=torch.arange(10),
        val=torch.arange(10, 20),
        test={"full": torch.arange(20, 40)},
        num_classes=3,
        raw_feature_range=(-1.0, 1.0),
        origin="made here",
        user_graph=GRAPH,
    )
    attacked = perturbed(dataset, Perturbation(added_edges=pairs([(3, 20)])))
    assert isinstance(attacked, Dataset)
    assert attacked.user_graph is None
    assert attacked.num_edges == dataset.num_edges + 1
