"""A new model is its file and one row of the zoo: everything else follows."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn

from grb_check import models
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.models import zoo
from grb_check.ranking.boards.plan import plan
from grb_check.ranking.boards.results import model_name
from grb_check.session.listing import model_lines
from grb_check.training.building import build_victim
from grb_check.victims.subject import as_subject

TARGET = "grb_check.models:mine"
ROW = zoo.Entry("mine", "defences.mine", "Mine", "a linear layer")


class Mine(nn.Module):
    """A node's features and those of its neighbours, in one linear layer."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.index_add(0, edge_index[1], x[edge_index[0]]))
        return logits


def mine(num_features: int, num_classes: int, dataset: str = "") -> nn.Module:
    """The factory of the new model."""
    return Mine(num_features, num_classes)


@pytest.fixture(autouse=True)
def _new_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file `models/defences/mine.py` and its row."""
    file = ModuleType("grb_check.models.defences.mine")
    monkeypatch.setattr(file, "mine", mine, raising=False)
    monkeypatch.setitem(sys.modules, file.__name__, file)
    monkeypatch.setitem(zoo._ROWS, ROW.name, ROW)


def test_its_factory_is_found_by_name() -> None:
    """In `grb_check.models`, and by `--grb-model`."""
    assert models.mine is mine
    assert "mine" in dir(models)
    assert zoo.entry("Mine") is zoo.known(TARGET) is ROW
    assert as_subject(TARGET).source is mine


def test_it_can_be_built_and_trained() -> None:
    """Like any other."""
    dataset, cpu = community_dataset(), torch.device("cpu")
    built = as_subject(TARGET).build(dataset, 0, cpu)
    victim = build_victim(built, dataset, name="mine", seed=0, device=cpu)
    assert isinstance(victim.module, Mine)


def test_lists_and_leaderboards_have_it() -> None:
    """The list of models, the plan of a leaderboard, and its name on disk."""
    assert any(line.split()[:2] == ["mine", "Mine"] for line in model_lines())
    source = Source("tiny", GRB_FILES, Path("tiny"), places=Places(home=Path("home"), sources=()))
    planned = plan(source, registry=AttackRegistry()).candidates
    assert (planned[-1].title, planned[-1].target) == ("Mine", TARGET)
    assert model_name(TARGET) == "mine v1"
