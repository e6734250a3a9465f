"""Victims of what factories return: their features, outputs, and attributes of edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data

import grb_check
from grb_check.datasets.dataset import Dataset
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim, check_built
from grb_check.victims.checks import FeatureTypeWarning

CPU = torch.device("cpu")
DATASET = community_dataset()


def whole_numbers() -> Dataset:
    """Features of whole numbers from 0, given as integers."""
    graph = DATASET.graph.clone()
    graph.x = (2 * graph.x).round() - (2 * graph.x).round().min()
    return replace(DATASET, graph=graph, integers=True, features="given")


def two_classes() -> Dataset:
    graph = DATASET.graph.clone()
    graph.y = graph.y.clamp(max=1)
    return replace(DATASET, graph=graph, num_classes=2)


def build(built: object, dataset: Dataset) -> Victim:
    return build_victim(built, dataset, name="m", seed=0, device=CPU)


class Embeds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 4)
        self.out = nn.Linear(32, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.table(x).flatten(1))


class Fits(Embeds):
    def fit(self, data: Data) -> None:
        assert data.x.dtype == torch.int64


class OneOutput(nn.Module):
    """A logit, or the probability of class 1."""

    def __init__(self, *, flat: bool = False, sigmoid: bool = False) -> None:
        super().__init__()
        self.out = nn.Linear(8, 1)
        self.flat, self.sigmoid = flat, sigmoid

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.out(x)
        z = z.sigmoid() if self.sigmoid else z
        return z[:, 0] if self.flat else z


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.out(x)


class TakesData(Weighted):
    def forward(self, data: Data) -> Tensor:  # type: ignore[override]
        return self.out(data.x) * (1 if data.edge_weight is None else 2)


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.StructureIgnoredWarning")
@pytest.mark.parametrize("model", [Embeds, Fits])
def test_integer_features_reach_the_model_as_they_were_given(model: type[nn.Module]) -> None:
    """In its own training, and in every call of the harness, which has floats."""
    victim = build(model(), whole_numbers())
    assert victim.adapter.x_dtype == torch.int64
    x = whole_numbers().graph.x
    assert x.dtype == torch.float32
    assert victim(x, DATASET.graph.edge_index).shape == (DATASET.num_nodes, 3)


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.StructureIgnoredWarning")
def test_a_model_that_fails_with_integers_gets_floats() -> None:
    """A warning says so; features that are scaled are floats anyway."""
    with pytest.warns(FeatureTypeWarning, match=r"fails with x as it is in the data, int64"):
        victim = build(Weighted(), whole_numbers())
    assert victim.adapter.x_dtype == torch.float32
    assert build(Weighted(), replace(whole_numbers(), features="rows")).adapter.x_dtype is None


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("sigmoid", [False, True])
def test_one_output_for_two_classes_is_trained_and_read(flat: bool, sigmoid: bool) -> None:
    """Class 1 where the logit is positive, or the probability above one half."""
    dataset = two_classes()
    victim = build(OneOutput(flat=flat, sigmoid=sigmoid), dataset)
    graph = dataset.graph
    logits = victim(graph.x, graph.edge_index)
    assert logits.shape == (dataset.num_nodes, 2)
    positive = victim.module.out(graph.x)[:, 0] > 0
    assert torch.equal(logits.argmax(1), positive.long())
    nodes = dataset.test["full"]
    assert float((logits.argmax(1) == graph.y)[nodes].float().mean()) > 0.7


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
def test_one_output_for_three_classes_is_still_wrong() -> None:
    """And the message has its shape."""
    with pytest.raises(ModelError, match=r"got shape \[60, 1\]"):
        build(OneOutput(), DATASET)


@pytest.mark.parametrize("built", [Weighted(), TakesData(), grb_check.Trained(Weighted())])
def test_attributes_that_the_data_has_and_the_model_would_take_are_an_error(built: object) -> None:
    """Before it is called: it would be another model without them."""
    check_built(built, DATASET, "m")
    with pytest.raises(ModelError, match=r"takes edge_weight, .*data\.edge_weight = None"):
        check_built(built, replace(DATASET, left_out=("edge_weight",)), "m")
    check_built(Embeds(), replace(DATASET, left_out=("edge_weight",)), "m")
