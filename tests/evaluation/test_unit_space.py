"""Attacks on data whose columns have units of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import set_of_graphs
from torch import Tensor, nn
from trial_spies import CPU, DATASET

from grb_check.attacks.budgets import threat_of
from grb_check.attacks.registry import BUILT_IN, load_attack
from grb_check.cases.case import Case
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import GraphDataset, graph_dataset
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.perturbations import on_model, on_surrogates
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trial import Trial
from grb_check.gradients.rescaled import standardised
from grb_check.gradients.victim import Victim
from grb_check.store.store import Store
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

pytestmark = pytest.mark.usefixtures("short_trainings")
FACTORS = torch.tensor([1.0, 4096.0, 1.0, 0.25, 1.0, 1024.0, 1.0, 1.0])  # exact in float32
INJECTIONS = [name for scenario, name in BUILT_IN if scenario == "injection"]


def dataset(factors: Tensor) -> Dataset:
    """The small graph with a flag and a count among its columns, in these units."""
    graph = DATASET.graph.clone()
    graph.x[:, 4] = (graph.x[:, 4] > 0).float()
    graph.x[:, 6] = (3 * graph.x[:, 6]).round()
    graph.x[:, 7] = 2.0
    graph.x = graph.x * factors
    return replace(DATASET, graph=graph, features="given")


def trial(data: Dataset, scenario: str, attack: str) -> Trial:
    models = HarnessModels(data, data.fingerprint(), Store(None), CPU)
    threat = threat_of(data, "easy", scenario, attack)
    return Trial(
        models, load_attack(scenario, attack), threat, Case("d", "easy", scenario, attack), 0
    )


class Sums(nn.Module):
    """Sums over neighbours of features in units that the module knows."""

    def __init__(self, factors: Tensor) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(8, 3)
        self.register_buffer("factors", factors)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.layer(x / self.factors)
        return x + x.new_zeros(x.shape).index_add(0, edge_index[1], x[edge_index[0]])


def model(data: Dataset, factors: Tensor) -> TrainedModel:
    module = Sums(factors).eval().requires_grad_(False)
    victim = Victim(Adapter(module, "sums", PLAIN), 3)
    return TrainedModel(victim, predict(victim, data.graph, 0))


@pytest.mark.parametrize("attack", INJECTIONS)
def test_an_attack_keeps_to_each_column_and_does_not_depend_on_units(attack: str) -> None:
    """On surrogates: flags stay flags, counts whole, constants constant; verified on the way."""
    ones = torch.ones(8)
    first, second = (
        on_surrogates(trial(dataset(factors), "injection", attack))[0]
        for factors in (ones, FACTORS)
    )
    x = first.injected_x
    assert set(x[:, 4].tolist()) <= {0.0, 1.0}
    assert torch.equal(x[:, 6], x[:, 6].round())
    assert set(x[:, 7].tolist()) == {2.0}
    assert torch.equal(first.injected_edges, second.injected_edges)
    assert torch.allclose(x, second.injected_x / FACTORS, atol=1e-3)


@pytest.mark.parametrize(
    ("scenario", "attack"), [("injection", "pgd+white-box"), ("modification", "pgd+white-box")]
)
def test_an_attack_on_the_model_itself_does_not_depend_on_units(scenario: str, attack: str) -> None:
    """The same weights behind other units fall in the same way."""
    found = []
    for factors in (torch.ones(8), FACTORS):
        data = dataset(factors)
        found.append(on_model(trial(data, scenario, attack), model(data, factors)))
    one, other = found
    for name in ("injected_x", "modified_x"):
        rows = getattr(one, name)
        if rows.numel():
            assert torch.allclose(rows, getattr(other, name) / FACTORS, atol=1e-3)


def test_the_harness_sees_standardised_columns() -> None:
    """So that its models learn from each of them."""
    data = dataset(FACTORS)
    models = [
        HarnessModels(given, given.fingerprint(), Store(None), CPU)
        for given in (data, dataset(torch.ones(8)))
    ]
    first, second = (harness.surrogate("gcn").predicted for harness in models)
    assert float((first == second).float().mean()) > 0.99
    assert "standardised columns" in models[0].recipe("gcn")
    units = standardised(data.graph.x)(data.graph.x)
    assert torch.allclose(units.mean(0), torch.zeros(8), atol=1e-4)
    assert set(units[:, 7].tolist()) == {0.0}


def test_grbs_protocol_has_one_range_for_all_columns() -> None:
    """As for features that GRB normalises."""
    normalised = replace(dataset(torch.ones(8)), features="grb")
    assert threat_of(normalised, "easy", "injection", "pgd").columns is None
    assert threat_of(dataset(FACTORS), "easy", "injection", "pgd").columns is not None


def graphs(factors: Tensor) -> GraphDataset:
    """A set of graphs whose nodes have a label, a count and a constant, in these units."""
    raw = set_of_graphs()
    generator = torch.Generator().manual_seed(1)
    labels = raw.graphs.x.argmax(1, keepdim=True).float()
    noise = torch.randn(labels.shape, generator=generator)
    x = torch.cat([labels, labels + noise, torch.full_like(labels, 2.0)], dim=1)
    raw.graphs.x = x * factors
    return graph_dataset(raw)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["fgsm", "pgd", "tdgia"])
def test_attacks_on_sets_of_graphs_do_not_depend_on_units(attack: str) -> None:
    """And keep to each column."""
    factors = torch.tensor([1.0, 1024.0, 0.25])
    perturbations = []
    for units in (torch.ones(3), factors):
        data = graphs(units)
        models = HarnessModels(data, data.fingerprint(), Store(None), CPU)
        threat = threat_of(data, "full", "injection", attack)
        case = Case("d", "full", "injection", attack)
        tried = Trial(models, load_attack("injection", attack), threat, case, 0)
        perturbations.append(on_surrogates(tried)[0])
    first, second = perturbations
    x = first.injected_x
    assert torch.equal(x[:, 0], x[:, 0].round())
    assert set(x[:, 2].tolist()) == {2.0}
    assert torch.equal(first.injected_edges, second.injected_edges)
    assert torch.allclose(x, second.injected_x / factors, atol=1e-3)


def test_one_hot_sets_of_graphs_keep_their_threat() -> None:
    """Their columns have the same units."""
    threat = threat_of(graph_dataset(set_of_graphs()), "full", "injection", "pgd")
    assert threat.one_hot
    assert threat.columns is None
