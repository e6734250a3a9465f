"""Attacks by name: a row is enough; defaults for GRB's datasets; users' attacks without pytest."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import graph_of
from tiny import write_dataset
from torch_geometric.nn import GCNConv
from toy_attack import PAIR, WITH_TOY, InjectionToy

import grb_check
from grb_check.attacks import registry
from grb_check.attacks.budgets import settings_for
from grb_check.attacks.registry import canonical_name, describe, load_attack
from grb_check.attacks.threat import Perturbation
from grb_check.cases import suites as suites_module
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.datasets.dataset import Dataset
from grb_check.errors import AttackError, UsageError
from grb_check.session.listing import attack_lines

# name, nodes, features, iterations of PGD, FGSM, SPEIT and TDGIA: Table 12 of the GRB paper.
PUBLISHED = [
    ("grb-cora", 2680, 302, 1000),
    ("grb-citeseer", 3191, 768, 1000),
    ("grb-flickr", 89250, 500, 2000),
    ("grb-reddit", 232965, 602, 2000),
    ("grb-aminer", 659574, 100, 5000),
]


def dataset_of(name: str, num_nodes: int, num_features: int) -> Dataset:
    """Return a dataset of that size; its features take no memory."""
    graph = graph_of(4, [(0, 1)])
    graph.x = torch.tensor([0.0]).expand(num_nodes, num_features)
    return Dataset(
        name=name,
        graph=graph,
        train=torch.tensor([0]),
        val=torch.tensor([1]),
        test={"full": torch.tensor([2])},
        num_classes=2,
        raw_feature_range=(-1.0, 1.0),
        features="grb",
        origin="test",
    )


@pytest.mark.parametrize(("name", "nodes", "features", "iterations"), PUBLISHED)
def test_attacks_on_grbs_datasets_have_the_published_settings(
    name: str, nodes: int, features: int, iterations: int
) -> None:
    """Only as published, not a graph of the same name; settings in a name have priority."""
    settings = settings_for(dataset_of(name, nodes, features), "injection")
    assert settings == {"iterations": iterations, "step_size": 0.01}
    assert load_attack("injection", "pgd", settings) == replace(
        load_attack("injection", "pgd"),  # type: ignore[type-var]
        iterations=iterations,
        step_size=0.01,
    )
    named: Any = load_attack("injection", "pgd+iterations=1000", settings)
    assert named.iterations == 1000
    assert settings_for(dataset_of(name, nodes + 1, features), "injection") == {}
    assert settings_for(dataset_of(name, nodes, features), "modification") == {}
    assert settings_for(dataset_of("other", nodes, features), "injection") == {}


class Net(torch.nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv = GCNConv(num_features, num_classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv(x, edge_index)


class Nothing:
    name, scenario, knowledge = "nothing", "injection", "black-box"

    def perturb(self, graph: Any, threat: Any, model: Any, generator: Any) -> Perturbation:
        return Perturbation(notes=("saw no need",))


class Broken(Nothing):
    name = "broken"

    def perturb(self, graph: Any, threat: Any, model: Any, generator: Any) -> Perturbation:
        raise RuntimeError("the user's own fault")


@pytest.mark.slow
def test_an_attack_of_ones_own_is_evaluated_without_pytest(tmp_path: Path) -> None:
    """Objects and classes; errors have the attack's name."""

    given: dict[str, Any] = {
        "dataset": write_dataset(tmp_path / "tiny"),
        "difficulty": "easy",
        "repeats": 1,
        "store": tmp_path / "store",
    }
    for attack in (Nothing(), Nothing):
        outcome = grb_check.evaluate(untrained, attack=attack, **given)
        assert outcome.case.id == "tiny/easy/injection/nothing"
        assert outcome.drop == 0
        assert outcome.repeats[0].notes == ("saw no need",)
        assert not outcome.repeats[0].from_store
    with pytest.raises(AttackError, match=r"injection/broken raised:\n(?s:.*)the user's own fault"):
        grb_check.evaluate(untrained, attack=Broken(), **given)
    with pytest.raises(UsageError, match="attack int"):
        grb_check.evaluate(untrained, attack=3, **given)
    with pytest.raises(UsageError, match="'rnd' is ambiguous"):
        grb_check.evaluate(untrained, attack="rnd", **given)


def untrained(num_features: int, num_classes: int) -> grb_check.Trained:
    return grb_check.Trained(Net(num_features, num_classes).eval())


@pytest.mark.slow
def test_a_row_is_all_that_a_new_attack_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names, modifiers, the name on disk, the suite of its tag, listings and runs follow."""
    monkeypatch.setattr(registry, "BUILT_IN", WITH_TOY)
    assert canonical_name("injection", "toy+knowledge=white-box+height=02") == (
        "toy+height=2.0+white-box"
    )
    assert load_attack("injection", "toy+height=2") == InjectionToy(height=2.0)
    assert describe(InjectionToy(height=2.0)) == "injection/toy v1 (height=2.0)"
    assert AttackRegistry().select(["toy"]) == (PAIR,)
    suites = runpy.run_path(suites_module.__file__)["SUITES"]  # as a new process has them
    assert [name for name, suite in suites.items() if PAIR in suite.attacks] == ["smoke"]
    assert any(line.split()[:2] == ["injection/toy", "black-box"] for line in attack_lines())
    outcome = grb_check.evaluate(
        untrained,
        attack="toy",
        dataset=write_dataset(tmp_path / "tiny"),
        difficulty="easy",
        repeats=1,
        store=tmp_path / "store",
    )
    assert outcome.case.id == "tiny/easy/injection/toy"
    assert outcome.attack == "injection/toy v1"
    assert list((tmp_path / "store").glob("**/*.npz"))


@pytest.mark.parametrize("pair", list(registry.BUILT_IN), ids="/".join)
def test_the_table_knows_whether_an_attack_sees_the_model(pair: tuple[str, str]) -> None:
    """Estimates of time need it without importing the attack."""
    assert registry.BUILT_IN[pair].knows_model == (load_attack(*pair).knowledge == "white-box")
