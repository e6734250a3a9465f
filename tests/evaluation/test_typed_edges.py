"""Attacks on the edges of one type: models get all others as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_repeat import outcomes_of

from grb_check import Outcome
from grb_check.errors import UnknownReachError

pytestmark = pytest.mark.usefixtures("short_trainings")
MODULE = """
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv
from torch_geometric.utils import sort_edge_index, to_undirected

import grb_check

SIZE = 90


def data(types=2):
    generator = torch.Generator().manual_seed(0)
    pairs = to_undirected(torch.randint(SIZE, (2, 200), generator=generator))
    kind = (pairs.sum(dim=0) % 3).clamp(max=types - 1)
    y = torch.arange(SIZE) % 2
    x = torch.randn(SIZE, 4, generator=generator) + y[:, None]
    return Data(x=x, y=y, edge_index=pairs, edge_type=kind)


def one():
    return data(1)


def counted():
    given = data()
    first, second = given.edge_index
    degrees = torch.bincount(first[first != second], minlength=SIZE).float()
    given.x = torch.cat([given.x[:, :3], degrees[:, None]], dim=1)
    return given


class Typed(nn.Module):
    def __init__(self, checked):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = RGCNConv(4, 8, 2), RGCNConv(8, 2, 2)
        self.checked = checked

    def forward(self, x, edge_index, edge_type):
        if self.checked is not None and x.shape[0] >= SIZE:
            others = sort_edge_index(edge_index[:, edge_type != 1])
            assert others.equal(self.checked), "an edge of another type has changed"
        hidden = self.first(x, edge_index, edge_type).relu()
        return self.last(hidden, edge_index, edge_type)


def build():
    given = data()
    others = sort_edge_index(given.edge_index[:, given.edge_type != 1])
    return grb_check.Trained(Typed(others).eval())


def plain():
    return grb_check.Trained(Typed(None).eval())
"""
QUICK = ("modification/rnd", "injection/rnd")
OTHERS = (
    "modification/dice",
    "modification/prbcd+iterations=8+black-box",
    "modification/prbcd+iterations=8",
    "modification/eva+forwards=60",
    "injection/pgd+iterations=5+white-box",
)


def outcomes(model: str, dataset: str, *attacks: str) -> list[Outcome]:
    return outcomes_of(f"typed_graph:{model}", f"typed_graph:{dataset}", *attacks)


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "typed_graph.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("attacks", [QUICK, pytest.param(OTHERS, marks=pytest.mark.slow)])
def test_no_attack_changes_an_edge_of_another_type(attacks: tuple[str, ...]) -> None:
    """The model itself refuses any graph in which one has."""
    made = outcomes("build", "data#type1", *attacks)
    assert [outcome.case.dataset for outcome in made] == ["typed_graph.data.type1"] * len(attacks)
    assert all(sum(outcome.repeats[0].spent.values()) for outcome in made)


def test_a_type_has_a_budget_of_its_own() -> None:
    """Of its edges, not of all."""
    budgets = {
        sum(outcome.repeats[0].spent.values())
        for dataset in ("data", "data#type0", "data#type1")
        for outcome in outcomes("plain", dataset, "modification/rnd")
    }
    assert len(budgets) == 3  # the pairs are unevenly divided


@pytest.mark.parametrize(
    "attack",
    [
        "modification/rnd",
        pytest.param("modification/prbcd+iterations=8", marks=pytest.mark.slow),
        pytest.param("injection/pgd+iterations=5+white-box", marks=pytest.mark.slow),
    ],
)
def test_of_one_type_alone_an_attack_is_the_plain_one_to_the_bit(attack: str) -> None:
    """Figures, answers and perturbations."""
    (plain,), (typed,) = outcomes("plain", "one", attack), outcomes("plain", "one#type0", attack)
    assert typed.repeats[0].victim == plain.repeats[0].victim
    assert typed.repeats[0].perturbation == plain.repeats[0].perturbation


def test_a_column_that_was_computed_from_all_edges_is_named() -> None:
    """Though attacks see those of one type."""
    (outcome,) = outcomes("plain", "counted#type0", "modification/rnd")
    assert any("the number of neighbours of a node" in text for text in outcome.warnings)


def test_what_cannot_be_proven_of_typed_edges_says_why() -> None:
    with pytest.raises(UnknownReachError, match="its edges are as they were given"):
        outcomes("plain", "data#type0", "modification/any-flip")
