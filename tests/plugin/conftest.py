"""A tiny dataset and tiny models for runs of the plugin."""

from __future__ import annotations

import importlib

import pytest
from tiny import write_dataset

from grb_check.attacks import attack_names, load_attack

# In-process runs forget the modules that they import, and torch cannot be imported twice.
for _name in ("scipy.special", "torch_geometric.nn", "evaluation", "models", "session"):
    importlib.import_module(_name if "." in _name else f"grb_check.{_name}")
for _pair in attack_names():
    load_attack(*_pair)

MODELS = """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv


class Net(torch.nn.Module):
    def __init__(self, num_features, num_classes, width=16):
        super().__init__()
        self.first = GCNConv(num_features, width)
        self.second = GCNConv(width, num_classes)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Mlp(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.linear = torch.nn.Linear(num_features, num_classes)

    def forward(self, x, edge_index):
        return self.linear(x)


class Constant(Mlp):
    def forward(self, x, edge_index):
        return torch.zeros(x.shape[0], self.linear.out_features) + 0 * self.linear(x)


class Integers(Mlp):
    def forward(self, x, edge_index):
        return self.linear(x).round().long()


class Raises(Mlp):
    def forward(self, x, edge_index):
        raise RuntimeError("the user's own fault")


def graph():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    pairs = torch.randint(0, 90, (2, 400), generator=generator)
    x = torch.randn(90, 6, generator=generator) + 2 * torch.eye(3, 6)[y]
    part = torch.arange(90) // 30
    masks = {f"{name}_mask": part == number for number, name in enumerate(("train", "val", "test"))}
    return Data(x=x, edge_index=pairs[:, pairs[0] != pairs[1]], y=y, **masks)


def graph_without_labels():
    data = graph()
    del data.y
    return data


def broken_graph():
    raise RuntimeError("no such graph")


def build(num_features, num_classes):
    return Net(num_features, num_classes)


def broken(num_features):
    raise ValueError("the factory's own fault")


not_callable = 3
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with `models.py`, a dataset `tiny` and nothing configured."""
    for name in ("GRB_CHECK_DATA", "GRB_CHECK_STORE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(models=MODELS)
    write_dataset(pytester.path / "tiny")
    monkeypatch.syspath_prepend(pytester.path)
    return pytester
