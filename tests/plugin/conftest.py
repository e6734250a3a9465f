"""A tiny dataset and tiny models for runs of the plugin."""

from __future__ import annotations

import os
from pathlib import Path

import preloaded  # noqa: F401 - by being imported
import pytest
from tiny import write_dataset

MODELS = """
import torch
from scipy.sparse import load_npz
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


class Brittle(torch.nn.Module):  # reads the features, and is wrong once ./tiny has changed
    def forward(self, x, edge_index):
        clean = load_npz("tiny/adj.npz").tocoo()
        pairs = int((edge_index[0] * edge_index[1]).sum())
        logits = x[:, :3] * (1 + edge_index[0].bincount(minlength=x.shape[0])[:, None])
        whole = x.shape[0] >= clean.shape[0]
        return -logits if whole and pairs != (clean.row.astype(int) * clean.col).sum() else logits


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
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) & (pairs[0] != pairs[1])]
    return Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], dim=1), y=y, **masks)


def broken_graph():
    raise RuntimeError("no such graph")


def build(num_features, num_classes):
    return Net(num_features, num_classes)


def broken(num_features):
    raise ValueError("the factory's own fault")
"""
ATTACKS = """
import torch
import grb_check, models
from dataclasses import dataclass
from typing import ClassVar
from grb_check.attacks.threat import Perturbation


class Average:
    name, scenario, knowledge = "average", "injection", "black-box"

    def perturb(self, graph, threat, model, generator):
        targets = threat.targets.cpu()
        links = torch.stack([torch.zeros(1, dtype=torch.int64), targets[:1]])
        return Perturbation(injected_x=graph.x.mean(0, keepdim=True), injected_edges=links)


@dataclass(frozen=True)
class Faulty(Average):
    kind: str = "raise"
    name: ClassVar[str] = "faulty"
    version: ClassVar[int] = 1

    def perturb(self, graph, threat, model, generator):
        if self.kind == "raise":
            raise RuntimeError("the user's own fault")
        if self.kind == "budget":
            count = threat.injected_nodes + 1
            return Perturbation(injected_x=torch.zeros(count, graph.num_features))
        return {"kind": self.kind}


@dataclass(frozen=True)
class Stored(Average):
    size: int = 1
    name: ClassVar[str] = "stored"
    version: ClassVar[int] = 1


class Pgd(Average):
    name = "pgd"


def untrained(num_features, num_classes):
    return grb_check.Trained(models.Net(num_features, num_classes).eval())


def brittle():
    return grb_check.Trained(models.Brittle().eval())
"""


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all runs, so that surrogates and references are trained and attacked once."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-store"


@pytest.fixture
def project(
    pytester: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A folder with `models.py`, `attacks.py`, a dataset `tiny` and nothing configured.

    Its store is the shared one.
    """
    for name in ("GRB_CHECK_DATA", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GRB_CHECK_STORE", str(store))
    pytester.makepyfile(models=MODELS, attacks=ATTACKS)
    write_dataset(pytester.path / "tiny")
    monkeypatch.syspath_prepend(pytester.path)
    return pytester


@pytest.fixture
def own_store(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is where it is by default, and empty."""
    monkeypatch.delenv("GRB_CHECK_STORE")
