"""Each property: it is checked, a model built to break it is caught, and sound models pass."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch
from broken_models import BROKEN, PAGES, Sound, SoundOfGraphs, trained

from grb_check import datasets
from grb_check.conformance.check import ON_GRAPHS, ONCE, VARIANTS, check_property
from grb_check.conformance.check_model import trained_model
from grb_check.conformance.model import CheckedModel
from grb_check.conformance.properties import PROPERTIES, PropertyResult, names_of
from grb_check.evaluation.evaluator import Evaluator
from grb_check.store.place import open_store
from grb_check.victims.subject import as_subject


@cache
def evaluator() -> Evaluator:
    return Evaluator(store=open_store(None), device="cpu")


def model_of(factory: object, *, of_graphs: bool = False) -> CheckedModel:
    name = "synthetic-molecules" if of_graphs else "synthetic-cora"
    source = datasets.find(name, datasets.Places(folders=()))
    return trained_model(evaluator(), as_subject(factory), source)  # type: ignore[arg-type]


def found(factory: object, name: str) -> PropertyResult:
    of_graphs = not PROPERTIES[name].of_nodes
    return check_property(model_of(factory, of_graphs=of_graphs), name)


def test_every_property_has_one_check() -> None:
    assert sorted([*ON_GRAPHS, *VARIANTS, *ONCE]) == sorted(PROPERTIES)


def test_every_property_that_can_fail_here_has_a_model_that_breaks_it() -> None:
    """A GPU is needed for one, and the other never fails."""
    assert set(PROPERTIES) - set(BROKEN) == {"devices", "scale"}


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_has_a_page_with_its_name(name: str) -> None:
    """And what it says below."""
    title, _, says, *_ = (PAGES / f"{name}.md").read_text("utf-8").splitlines()
    assert title == f"# {name}"
    assert says.lower() == f"{PROPERTIES[name].says}.".lower()


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_breaks_it_is_caught(name: str) -> None:
    """With what is wrong, and a graph unless none matters."""
    result = found(BROKEN[name], name)
    assert result.result == "fail", result
    assert result.note
    assert (result.nodes > 0) == bool(result.code) == (name != "label-leakage")


@pytest.mark.parametrize("of_graphs", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_sound_model_breaks_none(*, of_graphs: bool) -> None:
    """What does not apply is skipped with the reason."""
    factory = trained(SoundOfGraphs if of_graphs else Sound)
    model = model_of(factory, of_graphs=of_graphs)
    results = [check_property(model, name) for name in names_of(of_graphs=of_graphs)]
    assert [check for check in results if check.result == "fail"] == []
    skipped = {check.name for check in results if check.result == "skip"}
    assert skipped <= {"unit-weights", "label-leakage", "devices"}


@pytest.mark.slow
def test_other_properties_do_not_fail_for_what_one_of_them_tells() -> None:
    """A model that cannot answer some graphs: only the properties about these graphs fail."""
    factory = BROKEN["no-edges"]
    names = [name for name in ON_GRAPHS if PROPERTIES[name].of_nodes]
    failed = {name for name in names if found(factory, name).result == "fail"}
    assert failed == {"no-edges", "single-node", "any-size", "isolated-nodes"}


def test_the_code_of_a_graph_makes_it() -> None:
    """It can be pasted."""
    result = found(BROKEN["hubs"], "hubs")
    graph = eval(
        "\n".join(result.code), {"torch": torch, "Data": __import__("torch_geometric").data.Data}
    )
    assert graph.num_nodes == result.nodes >= 18  # a hub and 17 leaves
    assert graph.edge_index.T.tolist() == [list(ends) for ends in result.edges]


def test_global_random_states_are_as_before() -> None:
    """Those of users' other tests."""
    torch.manual_seed(3)
    random.seed(3)
    before = torch.random.get_rng_state(), random.getstate()
    found(trained(Sound), "edge-order")
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert random.getstate() == before[1]
