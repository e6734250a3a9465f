"""Suites, datasets and attacks that the options select."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.cases.suites import FOR_GRAPHS
from grb_check.errors import UsageError
from grb_check.settings.selecting import cases_of
from grb_check.settings.settings import found_again


def test_two_datasets_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their cases could not be told apart."""
    for folder in ("a", "b"):
        (tmp_path / folder / "mine").mkdir(parents=True)
        for name in ("adj", "features", "labels", "index"):
            (tmp_path / folder / "mine" / f"{name}.npz").touch()
    both = [str(tmp_path / "a" / "mine"), str(tmp_path / "b" / "mine")]
    with pytest.raises(UsageError, match="two datasets have the name 'mine'"):
        settings(tmp_path, dataset=both)
    options = settings(tmp_path, dataset=[both[0], f"other={both[1]}"])
    assert [source.name for source in options.datasets] == ["mine", "other"]


def test_a_comma_inside_a_setting_does_not_part_attacks(tmp_path: Path) -> None:
    """Unless an attack's name follows."""
    with pytest.raises(UsageError, match="'5,dcie' is not a whole number; no attack has the name"):
        settings(tmp_path, attack=["fgsm+iterations=5,dcie"])
    options = settings(tmp_path, attack=["rnd+removal_share=0.25,dice", "fgsm+iterations=5"])
    assert options.attacks == (
        ("injection", "fgsm+iterations=5"),
        ("modification", "rnd+removal_share=0.25"),
        ("modification", "dice"),
    )


def test_a_suite_has_its_own_attacks(tmp_path: Path) -> None:
    """A pattern keeps some of them, beside attacks by name; one that matches none is an error."""
    every = settings(tmp_path).attacks
    flips = tuple(pair for pair in every if pair[0] == "modification")
    assert settings(tmp_path, attack=["modification/*"]).attacks == flips
    assert settings(tmp_path, attack=["*"]).attacks == every
    both = settings(tmp_path, attack=["ag?a", "injection/r*,nettack"], suite="standard").attacks
    assert both == (("injection", "rnd"), ("injection", "agia"), ("modification", "nettack"))
    with pytest.raises(UsageError, match=r"'modification/\*' matches no attack of the suite"):
        settings(tmp_path, suite="paper", attack=["modification/*"], dataset=["synthetic-cora"])


SETS = """
import torch
from torch_geometric.data import Data

def ring(size, y):
    nodes = torch.arange(size)
    edges = torch.stack([nodes, (nodes + 1) % size])
    both = torch.cat([edges, edges.flip(0)], 1)
    return Data(x=torch.rand(size, 2), edge_index=both, y=y)

def graphs():
    return [ring(4 + place % 3, place % 2) for place in range(40)]

def graph():
    return ring(40, torch.arange(40) % 2)

def broken():
    raise KeyError("my table")
"""


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user with a set of graphs, a graph and a function that raises."""
    name = f"own_sets_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SETS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "own_sets", importlib.import_module(name))


@pytest.mark.usefixtures("sets")
def test_what_a_function_gives_decides_the_suite(tmp_path: Path) -> None:
    """A set of graphs has other attacks than a graph, and one difficulty."""
    options = settings(tmp_path, model=["a:b"], dataset=["own_sets:graphs"])
    assert options.suite == FOR_GRAPHS
    assert cases_of(options)[0].id == "own_sets.graphs/full/injection/rnd"
    options = settings(tmp_path, model=["a:b"], dataset=["own_sets:graph"])
    assert options.suite == "smoke"
    both = ["own_sets:graph", "own_sets:graphs"]
    options = settings(tmp_path, model=["a:b"], dataset=both, attack=["prbcd"])
    assert {case.difficulty for case in cases_of(options) if case.dataset == "own_sets.graphs"} == {
        "full"
    }


@pytest.mark.usefixtures("sets")
@pytest.mark.parametrize("dataset", ["own_sets:graphs", "synthetic-molecules"])
@pytest.mark.parametrize(
    ("rule", "refused", "allowed"),
    [
        ("split", "grb", "given"),
        ("training", "transductive", "inductive"),
        ("features", "grb", "given"),
    ],
)
def test_rules_for_single_graphs_are_refused_on_sets(
    tmp_path: Path, dataset: str, rule: str, refused: str, allowed: str
) -> None:
    """And not ignored; a suite's own rules are for its single graphs."""
    given = {"model": ["a:b"], "dataset": ["synthetic-cora", dataset], "attack": ["prbcd"]}
    with pytest.raises(
        UsageError, match=rf"--grb-{rule} {refused} .*allowed for sets: [a-z, ]*{allowed};"
    ):
        settings(tmp_path, **given, **{rule: refused})
    options = settings(tmp_path, **given, **{rule: allowed})
    assert {getattr(spec, rule) for spec in options.datasets} == {allowed}
    options = settings(tmp_path, **given, suite="contrastive")
    assert [spec.training for spec in options.datasets] == ["transductive", "inductive"]
    sources = [found_again(spec, options) for spec in options.datasets]
    assert [source.features for source in sources] == ["rows", "given"]
    assert [source.split for source in sources] == ["given", None]
