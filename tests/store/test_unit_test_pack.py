"""The published unit test as a pack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import unit_test_file as made

from grb_check import datasets
from grb_check.attacks.budgets import threat_for
from grb_check.attacks.registry import describe
from grb_check.attacks.threat import Threat, apply
from grb_check.datasets import Places
from grb_check.datasets.dataset import Dataset
from grb_check.errors import BudgetError, UsageError
from grb_check.store.pack import Wanted
from grb_check.store.packs import open_pack
from grb_check.store.unit_test import UnitTest

WANTED = Wanted(
    fingerprint="",
    difficulty="full",
    scenario="modification",
    attack="unit-test-jaccard_gcn",
    description="",
    threat="",
    seed=0,
    dataset="any",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made.write(tmp_path / "unit_test.npz")


def graph(path: Path, spec: str = "unit-test:cora_ml/2") -> Dataset:
    places = Places(folders=(path.parent,), home=path.parent / "home", split="given")
    return datasets.load(datasets.find(spec, places))


def within(dataset: Dataset, flips: int) -> Threat:
    return replace(threat_for(dataset, "full", "modification"), edge_budget=flips)


def test_a_case_gets_the_largest_flips_within_its_budget(path: Path) -> None:
    """Of its graph, split and model: an edge is removed, another pair is added."""
    pack, dataset = open_pack(path), graph(path)
    for budget, size in ((2, 2), (29, 8), (1000, 30)):
        threat = within(dataset, budget)
        assert pack.check(WANTED, threat)
        found = pack.perturbation(WANTED, dataset.graph, threat)
        assert found is not None
        flips = torch.cat([found.added_edges, found.removed_edges], dim=1)
        key = f"cora_ml/perturbations/evasion/jaccard_gcn/split_2/budget_{size:05d}"
        pairs = {tuple(sorted(each)) for each in made.arrays()[key].tolist()}
        assert {*map(tuple, flips.T.tolist())} == pairs
        edges = apply(dataset.graph, found).edge_index.shape[1] // 2
        change = found.added_edges.shape[1] - found.removed_edges.shape[1]
        assert edges == dataset.num_edges + change


def test_another_split_difficulty_model_or_a_tiny_budget_has_none(path: Path) -> None:
    """Graph and split are recognised by the targets."""
    pack, dataset = open_pack(path), graph(path)
    assert not pack.check(WANTED, within(dataset, 1))
    assert not pack.check(replace(WANTED, attack="unit-test-other"), within(dataset, 9))
    assert not pack.check(WANTED, replace(within(dataset, 9), targets=dataset.test["easy"]))
    other = graph(path, "unit-test:citeseer/2")
    mine = pack.perturbation(WANTED, dataset.graph, within(dataset, 9))
    theirs = pack.perturbation(WANTED, other.graph, within(other, 9))
    assert mine is not None
    assert theirs is not None
    assert not torch.equal(mine.added_edges, theirs.added_edges)


def test_it_brings_its_attacks_and_its_suite(path: Path) -> None:
    """Attacks are named by the model that they were made against, as is what is on disk."""
    pack = open_pack(path)
    assert isinstance(pack, UnitTest)
    names = [("modification", f"unit-test-{model}") for model in made.MODELS]
    assert list(pack.attacks) == names
    assert pack.suite is not None
    assert pack.suite.attacks == tuple(names)
    assert pack.suite.datasets[:2] == ("unit-test:cora_ml/0", "unit-test:cora_ml/1")
    assert len(pack.suite.datasets) == 10
    attack = pack.attacks[names[0]]
    assert describe(attack) == "modification/unit-test-gcn v1"
    assert pack.content == "60 perturbations against 2 models; 60 of poisoning are not run"
    _, first, *rest = pack.rows()
    assert first == ["unit-test:cora_ml/0", "modification/unit-test-gcn", "2, 8, 30"]
    assert len(rest) == 19
    told = pack.instead(replace(WANTED, scenario="injection", attack="rnd"))
    assert told == "it has the attacks unit-test-gcn, unit-test-jaccard_gcn"


def test_a_perturbation_is_verified(path: Path) -> None:
    """A pair that is there twice would count once."""
    key = "cora_ml/perturbations/evasion/jaccard_gcn/split_2/budget_00002"
    made.write(path, **{key: np.array([[3, 5], [5, 3]])})
    dataset = graph(path)
    with pytest.raises(BudgetError, match="1 repeated pairs"):
        open_pack(path).perturbation(WANTED, dataset.graph, within(dataset, 2))


@pytest.mark.parametrize(
    ("flips", "told"),
    [
        (np.array([[0, made.NODES]]), "has nodes outside 0 .. 119"),
        (np.array([[-1, 3]]), "has nodes outside"),
        (np.array([1, 2]), "not pairs"),
        (np.array([[0.5, 1.0]]), "not pairs"),
        (np.array([["a", {}]], dtype=object), "Python objects"),
    ],
)
def test_damaged_flips_are_an_error(path: Path, flips: object, told: str) -> None:
    """That says where the file is to be had."""
    key = "cora_ml/perturbations/evasion/jaccard_gcn/split_2/budget_00002"
    made.write(path, **{key: flips})  # type: ignore[arg-type]
    dataset = graph(path)
    with pytest.raises(UsageError, match=rf"unit_test\.npz.*{told}.*; download unit_test\.npz"):
        open_pack(path).perturbation(WANTED, dataset.graph, within(dataset, 2))


def test_its_digest_is_that_of_the_file(path: Path) -> None:
    """Another file at the path is refused."""
    digest = open_pack(path).digest
    assert open_pack(path, digest).digest == digest
    made.write(path, **{"cora_ml/splits/0/val": np.arange(3)})
    with pytest.raises(UsageError, match=f"the run uses the one with {digest[:16]}"):
        open_pack(path, digest)
