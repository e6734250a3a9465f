"""Modules that take the dicts of `HeteroData`: they are the same as those that take numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from one_repeat import outcomes_of

from grb_check import Outcome
from grb_check.errors import GrbCheckError

pytestmark = pytest.mark.usefixtures("short_trainings")
MODULE = """
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import HeteroConv, HGTConv, SAGEConv, to_hetero
from torch_geometric.utils import to_undirected

import grb_check

KINDS = [("account", "knows", "account"), ("account", "pays", "account")]
SIZE = 90


def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(SIZE) % 2
    result = HeteroData()
    result["account"].x = torch.randn(SIZE, 4, generator=generator) + y[:, None]
    result["account"].y = y
    for kind in KINDS:
        pairs = torch.randint(SIZE, (2, 150), generator=generator)
        result[kind].edge_index = to_undirected(pairs)
        result[kind].edge_weight = torch.ones(result[kind].edge_index.shape[1])
    return result


def unnamed():
    given = data()
    edges = [given[kind].edge_index for kind in KINDS]
    types = torch.arange(2).repeat_interleave(torch.tensor([part.shape[1] for part in edges]))
    x, y = given["account"].x, given["account"].y
    return Data(x=x, y=y, edge_index=torch.cat(edges, dim=1), edge_type=types)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = HeteroConv({kind: SAGEConv(4, 8) for kind in KINDS})
        self.last = HeteroConv({kind: SAGEConv(8, 2) for kind in KINDS})

    def both(self, x, edges):
        hidden = {name: value.relu() for name, value in self.first(x, edges).items()}
        return self.last(hidden, edges)


class Numbers(Layers):
    def forward(self, x, edge_index, edge_type):
        edges = {kind: edge_index[:, edge_type == number] for number, kind in enumerate(KINDS)}
        return self.both({"account": x}, edges)["account"]


class Dicts(Layers):
    def forward(self, x_dict, edge_index_dict):
        return self.both(x_dict, edge_index_dict)


class OneOutput(Layers):
    def forward(self, x_dict, edge_index_dict):
        return self.both(x_dict, edge_index_dict)["account"]


class Graph(Layers):
    def forward(self, data):
        return self.both(data.x_dict, data.edge_index_dict)["account"]


class Weighted(Dicts):
    def forward(self, x_dict, edge_index_dict, edge_weight_dict):
        assert edge_weight_dict.keys() == edge_index_dict.keys()
        for kind in KINDS:
            assert edge_weight_dict[kind].shape == edge_index_dict[kind].shape[1:]
        return super().forward(x_dict, edge_index_dict)


class OptionalWeights(Dicts):
    def forward(self, x_dict, edge_index_dict, edge_weight_dict=None):
        assert edge_weight_dict.keys() == edge_index_dict.keys()
        return super().forward(x_dict, edge_index_dict)


class Attributes(Dicts):
    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        return super().forward(x_dict, edge_index_dict)


class ByName(Layers):
    def forward(self, data):
        edges = {kind: data[kind].edge_index for kind in KINDS}
        return self.both({"account": data["account"].x}, edges)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = SAGEConv(4, 8), SAGEConv(8, 2)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention = HGTConv(4, 8, (["account"], KINDS), heads=2)
        self.linear = nn.Linear(8, 2)

    def forward(self, x_dict, edge_index_dict):
        return self.linear(self.attention(x_dict, edge_index_dict)["account"].relu())


class Fits(Dicts):
    def fit(self, data):
        assert isinstance(data, HeteroData)
        assert data["account"].train_mask.all()
        assert {*data.edge_types} == {*KINDS}
        self.both(data.x_dict, data.edge_index_dict)


def numbers():
    return grb_check.Trained(Numbers().eval())


def dicts():
    return grb_check.Trained(Dicts().eval())


def one_output():
    return grb_check.Trained(OneOutput().eval())


def graph():
    return grb_check.Trained(Graph().eval())


def weighted():
    return grb_check.Trained(Weighted().eval())


def optional_weights():
    return grb_check.Trained(OptionalWeights().eval())


def attributes():
    return grb_check.Trained(Attributes().eval())


def by_name():
    return grb_check.Trained(ByName().eval())


def wrapped_graph():
    return grb_check.Trained(grb_check.wrap(Graph().eval(), forward="data"))


def transformed():
    return grb_check.Trained(to_hetero(Plain(), (["account"], KINDS)).eval())


def untrained():
    return to_hetero(Plain(), (["account"], KINDS))


def attends():
    return grb_check.Trained(Attends().eval())


def named():
    module = to_hetero(Plain(), (["account"], KINDS))
    return grb_check.Trained(grb_check.wrap(module.eval(), forward="x_dict, edge_index_dict"))


def learns():
    return Dicts()


def fits():
    return Fits()
"""
ATTACKS = ("modification/rnd", "injection/rnd")
BY_EDGE_GRADIENT = ("modification/prbcd+iterations=8",)
BY_GRADIENT = (*BY_EDGE_GRADIENT, "injection/pgd+iterations=5+white-box")


@cache
def of_numbers(*attacks: str) -> list[Outcome]:
    return outcomes("numbers", *attacks)


def outcomes(model: str, *attacks: str, dataset: str = "kinds_graph:data") -> list[Outcome]:
    return outcomes_of(f"kinds_graph:{model}", dataset, *attacks)


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kinds_graph.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("model", ["optional_weights", "by_name", "wrapped_graph"])
def test_other_forms_of_the_same_module_are_the_same(model: str) -> None:
    for one, other in zip(of_numbers(*ATTACKS), outcomes(model, *ATTACKS), strict=True):
        assert other.repeats[0].victim == one.repeats[0].victim
        assert not any("does not take" in change for change in other.changes) or model == "by_name"


@pytest.mark.parametrize(
    ("model", "attacks"),
    [
        *[(model, ATTACKS) for model in ("dicts", "one_output", "graph", "weighted")],
        pytest.param("dicts", BY_GRADIENT, marks=pytest.mark.slow),
        *[
            pytest.param(model, BY_EDGE_GRADIENT, marks=pytest.mark.slow)
            for model in ("one_output", "graph", "weighted")
        ],
    ],
)
def test_dicts_are_the_numbers_to_the_bit(model: str, attacks: tuple[str, ...]) -> None:
    """Figures, answers and perturbations, also where gradients are followed."""
    for one, other in zip(of_numbers(*attacks), outcomes(model, *attacks), strict=True):
        assert other.repeats[0].victim == one.repeats[0].victim
        assert other.repeats[0].perturbation == one.repeats[0].perturbation
        assert not {finding.name for finding in other.repeats[0].diagnostics} - {
            finding.name for finding in one.repeats[0].diagnostics
        }


@pytest.mark.parametrize("model", ["transformed", "untrained", "named", "learns", "fits"])
def test_transformed_and_trained_modules_are_attacked(model: str) -> None:
    """Of PyG's `to_hetero`, by the harness's training, and by a training of its own."""
    (outcome,) = outcomes(model, "modification/rnd")
    assert sum(outcome.repeats[0].spent.values())


@pytest.mark.parametrize("dataset", ["kinds_graph:data", "kinds_graph:data#type1"])
def test_a_layer_of_all_types_has_a_gradient_by_edges(dataset: str) -> None:
    """HGTConv numbers the senders of each type on their own."""
    (outcome,) = outcomes("attends", "modification/prbcd+iterations=8", dataset=dataset)
    assert outcome.repeats[0].method == "adaptive"
    assert "no-gradient" not in {finding.name for finding in outcome.repeats[0].diagnostics}


def test_one_type_is_attacked_alone() -> None:
    (outcome,) = outcomes("dicts", "modification/rnd", dataset="kinds_graph:data#type1")
    assert sum(outcome.repeats[0].spent.values())


def test_types_without_names_are_refused() -> None:
    with pytest.raises(GrbCheckError, match=r"no named types.* takes \(x, edge_index, edge_type\)"):
        outcomes("dicts", "modification/rnd", dataset="kinds_graph:unnamed")
    with pytest.raises(GrbCheckError, match="reads the dicts of a HeteroData, and the"):
        outcomes("graph", "modification/rnd", dataset="kinds_graph:unnamed")


def test_attributes_that_no_edge_has_are_refused() -> None:
    with pytest.raises(GrbCheckError, match="attributes requires edge_attr, but dataset"):
        outcomes("attributes", "modification/rnd")
