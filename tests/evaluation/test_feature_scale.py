"""Finished models are attacked on features of the scale that they were trained on."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check import Trained, evaluate
from grb_check.cases.outcomes import Outcome
from grb_check.errors import ModelError

pytestmark = [
    pytest.mark.filterwarnings("ignore::grb_check.victims.checks.StructureIgnoredWarning"),
    pytest.mark.usefixtures("short_trainings"),
]


class Nearest(nn.Module):
    """The class whose number is nearest to the first feature."""

    def __init__(self, unit: float) -> None:
        super().__init__()
        self.unit = nn.Parameter(torch.tensor([unit]))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return -(x[:, :1] - self.unit * torch.arange(3)).abs()


def graph() -> Data:
    """120 nodes; half of the class is the first feature, if rows sum to 1."""
    data = community_dataset(num_nodes=120).graph
    length = torch.arange(10, 130)[:, None]
    data.x = length * torch.stack([data.y, 2 - data.y], dim=1).float()
    return data


def outcome(features: str | None, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    module = ModuleType("mine")
    module.data = graph  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    model = Trained(Nearest(0.5).eval())
    attack = "modification/rnd"
    return evaluate(model, dataset="mine:data", attack=attack, repeats=1, features=features)


def test_a_finished_model_that_needs_other_features_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names both choices."""
    both = r"--grb-features=rows, or --grb-features=given if this is meant"
    with pytest.raises(ModelError, match=both):
        outcome(None, monkeypatch)


@pytest.mark.parametrize(("features", "right"), [("rows", True), ("given", False)])
def test_a_choice_is_not_questioned(
    features: str, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is the better one or not."""
    assert (outcome(features, monkeypatch).clean == 1) == right


class Logarithm(Nearest):
    """Is not finite on features below -1, as those that are normalised as in GRB."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) + 0 * torch.log1p(3 * x[:, :1])


def test_a_model_that_cannot_take_other_features_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are only tried."""
    module = ModuleType("mine")
    module.data = graph  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    model = Trained(Logarithm(0.5).eval())
    with pytest.raises(ModelError, match="--grb-features=rows"):  # and not what grb gives
        evaluate(model, dataset="mine:data", attack="modification/rnd", repeats=1)
