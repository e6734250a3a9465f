"""All properties of a model without pytest."""

from __future__ import annotations

import pytest
import torch
from broken_models import BROKEN, Sound, trained

import grb_check
from grb_check import datasets
from grb_check.conformance.check import check_property
from grb_check.conformance.check_model import trained_model
from grb_check.evaluation.evaluator import Evaluator
from grb_check.store.place import open_store
from grb_check.victims.subject import as_subject

TWO = ("permutation-equivariance", "edge-order")


@pytest.mark.slow
def test_a_sound_model_is_told_of_each_property() -> None:
    """In the order of the table, whatever the order asked for."""
    found = grb_check.check_model(trained(Sound), properties=TWO[::-1])
    assert [(each.name, each.result) for each in found] == [(name, "pass") for name in TWO]


def test_the_error_has_the_graph_as_code() -> None:
    """It is an assertion that fails, for users' own tests."""
    with pytest.raises(grb_check.PropertyError) as error:
        grb_check.check_model(BROKEN[TWO[0]], properties=TWO)
    assert isinstance(error.value, AssertionError)
    assert "1 property of 2 failed" in str(error.value)
    assert "Data(\n    x=torch." in str(error.value)


def test_known_failures_are_expected_and_fail_when_they_pass() -> None:
    """With their reasons."""
    known = {TWO[0]: "uses node ids"}
    found = grb_check.check_model(BROKEN[TWO[0]], properties=TWO, expected_failures=known)
    assert [each.result for each in found] == ["fail", "pass"]
    with pytest.raises(grb_check.PropertyError, match=r"expected to fail \(uses node ids\)"):
        grb_check.check_model(trained(Sound), properties=TWO, expected_failures=known)


def test_unknown_properties_are_refused_before_training() -> None:
    """Also among the expected failures."""
    with pytest.raises(grb_check.UsageError, match="did you mean 'edge-order'"):
        grb_check.check_model("nowhere:build", properties=["edge-ordr"])
    with pytest.raises(grb_check.UsageError, match="unknown property 'speed'"):
        grb_check.check_model("nowhere:build", expected_failures={"speed": "slow"})


class Matrix(torch.nn.Module):
    """Multiplies by a matrix that the harness makes."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.only = torch.nn.Linear(num_features, num_classes)


class Adj(Matrix):
    def forward(self, x: torch.Tensor, adj: torch.Tensor) -> torch.Tensor:
        return adj @ self.only(x)


class AdjT(Matrix):
    def forward(self, x: torch.Tensor, adj_t: torch.Tensor) -> torch.Tensor:
        return adj_t @ self.only(x)


class OfData(Matrix):
    def forward(self, data: object) -> torch.Tensor:
        return self.only(data.x)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Adj, AdjT, OfData])
def test_what_the_harness_gives_is_of_the_features_dtype(kind: type[torch.nn.Module]) -> None:
    """Matrices of float32 with features of float64 would fail for a sound model."""
    source = datasets.find("synthetic-cora", datasets.Places(folders=()))
    evaluator = Evaluator(store=open_store(None), device="cpu")
    model = trained_model(evaluator, as_subject(trained(kind)), source)
    assert check_property(model, "double-precision").result == "pass"
