"""Attacks on a device other than the CPU, which an imitation stands in for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from imitation_device import imitation
from tiny import write_dataset
from torch import nn
from torch_geometric.data import Data

from benchmarks.injection.arena import with_settings
from benchmarks.victims import load_dataset
from grb_check import models
from grb_check.attacks.budgets import threat_of
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import attack_names, load_attack
from grb_check.attacks.threat import Perturbation
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.datasets.reading.pyg_graphs import set_of_graphs
from grb_check.evaluation.surrogates import surrogate
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import freeze

FEW = {"iterations": 2, "exchanges": 2, "steps": 2, "epochs": 2, "patience": None, "forwards": 4}
FEW |= {"training_steps": (2, 4), "edges": 1}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load_dataset(str(write_dataset(tmp_path_factory.mktemp("data") / "tiny")), [])


@pytest.mark.parametrize("model", [pytest.param("gcn", marks=pytest.mark.slow), "sage"])
@pytest.mark.parametrize("pair", attack_names(), ids="/".join)
def test_attacks_mix_no_devices(dataset: Dataset, model: str, pair: tuple[str, str]) -> None:
    """They move what they draw on the CPU, and do the same as there."""
    expected = perturbed(dataset, model, pair, torch.device("cpu"))
    with imitation() as device:
        perturbation = perturbed(dataset, model, pair, device)
    assert [tensor.device.type for tensor in perturbation.tensors()] == ["cpu"] * len(
        perturbation.tensors()
    )
    for ours, theirs in zip(perturbation.tensors(), expected.tensors(), strict=True):
        assert ours.shape == theirs.shape
        assert torch.equal(ours, theirs)


def test_a_threat_is_the_same_for_a_dataset_that_is_elsewhere(dataset: Dataset) -> None:
    """Where models learn on the training nodes alone, it follows from the edges between them."""
    expected = threat_of(dataset, "easy", "poisoning", "dice+local=0.5")
    with imitation() as device:
        moved = replace(dataset, graph=dataset.graph.clone().to(device))
        result = threat_of(moved, "easy", "poisoning", "dice+local=0.5")
    assert result.local_budgets is not None
    assert expected.local_budgets is not None
    assert torch.equal(result.local_budgets, expected.local_budgets)
    assert result.edge_budget == expected.edge_budget


def perturbed(
    dataset: Dataset, model: str, pair: tuple[str, str], device: torch.device
) -> Perturbation:
    attack = with_settings(load_attack(*pair), **FEW)
    limits = threat_of(dataset, "easy", *pair)
    there = limits.copied_to(device)
    perturbation = attack.perturb(
        dataset.graph.clone().to(device),
        there,
        victim(dataset, model, device),
        torch.Generator().manual_seed(3),
    )
    verify(perturbation, dataset.graph, limits)
    return perturbation


def victim(dataset: Dataset, model: str, device: torch.device) -> Victim:
    """Return an untrained model on the device."""
    with isolated_randomness(0):
        module: nn.Module = getattr(models, model)(dataset.num_features, dataset.num_classes)
    module = module.to(device)
    freeze(module)
    adapter = Adapter(module, model, detect_convention(module, "forward", model))
    return Victim(adapter, dataset.num_classes)


@pytest.mark.slow
def test_a_set_of_graphs_may_be_elsewhere() -> None:
    """Surrogates see standardised columns there, and models the edges as they were given."""
    graphs = [
        Data(
            x=torch.tensor([[1.5 * node, float(index % 2)] for node in range(5)]),
            edge_index=torch.tensor([[0, 1, 2, 0], [1, 2, 3, 0]]),
            y=index % 2,
        )
        for index in range(12)
    ]
    dataset = graph_dataset(set_of_graphs(graphs, name="paths", origin="a test", where="here"))
    given = dataset.given_edges
    assert given is not None
    expected = surrogate(dataset, seed=0, device=torch.device("cpu"))
    with imitation() as device:
        moved = replace(
            dataset, graph=dataset.graph.clone().to(device), given_edges=given.to(device)
        )
        model = surrogate(moved, seed=0, device=device)
        logits = model(moved.graph.x, moved.graph.edge_index).cpu()
        part = moved.given_edges_of(moved.validation_graphs)
        assert part is not None
        assert part.nodes.device == part.codes.device
    torch.testing.assert_close(logits, expected(dataset.graph.x, dataset.graph.edge_index))
