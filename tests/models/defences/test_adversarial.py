"""The factories of adversarially trained models and the arguments of their training."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from grb_check import SelfTrained, models
from grb_check.training.adversarial import AdversarialSettings

# Name of the plain factory, title of its row, most iterations under attack: fewer for the models
# whose iterations cost more.
FACTORIES = [
    ("gcn", "GCN", 100),
    ("gat", "GAT", 60),
    ("gin", "GIN", 100),
    ("appnp", "APPNP", 100),
    ("tagcn", "TAGCN", 100),
    ("sage", "SAGE", 100),
    ("sgcn", "SGCN", 60),
    ("rgcn", "R-GCN", 60),
]


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of a call of the training."""

    module: object
    data: Data
    validation: Data | None
    settings: AdversarialSettings


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Calls of `adversarial_training`, which trains nothing."""
    recorded: list[Call] = []

    def spy(
        module: object,
        data: Data,
        validation: Data | None = None,
        *,
        settings: AdversarialSettings,
    ) -> None:
        recorded.append(Call(module, data, validation, settings))

    monkeypatch.setattr("grb_check.models.defences.adversarial.adversarial_training", spy)
    return recorded


def view(num_features: int = 12) -> Data:
    """Three nodes in a path, one of each class."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return Data(x=torch.zeros(3, num_features), edge_index=edge_index, y=torch.arange(3))


def plain_and_trained(name: str, dataset: str) -> tuple[nn.Module, SelfTrained]:
    """A model of 12 features and 3 classes, and its adversarially trained variant."""
    plain = getattr(models, name)(12, 3, dataset)
    trained = getattr(models, f"{name}_at")(12, 3, dataset)
    assert isinstance(plain, nn.Module)
    assert isinstance(trained, SelfTrained)
    return plain, trained


@pytest.mark.parametrize(("name", "title"), [row[:2] for row in FACTORIES])
def test_follows_the_row_of_its_title_and_dataset(
    monkeypatch: pytest.MonkeyPatch, calls: list[Call], name: str, title: str
) -> None:
    """All published rates of these models are 0.01; here each row has another."""
    titles = [row[1] for row in FACTORIES]
    rates = {
        (model_title, dataset): 0.001 * (1 + number) * scale
        for dataset, scale in (("grb-cora", 1), ("grb-aminer", 100))
        for number, model_title in enumerate(titles)
    }
    plain, trained = plain_and_trained(name, "grb-aminer")
    monkeypatch.setattr(
        "grb_check.models.defences.adversarial.hyper_parameters",
        lambda model, dataset: {"lr": rates[model, dataset]},
    )
    trained.fit(view())
    [call] = calls
    assert str(call.module) == str(plain)
    assert call.validation is None
    assert call.settings.warmup.lr == rates[title, "grb-aminer"]
    assert call.settings.training.lr == rates[title, "grb-aminer"]


@pytest.mark.parametrize(
    ("dataset", "num_features", "nodes", "edges", "limits"),
    [
        ("grb-cora", 302, 60, 20, (-0.94, 0.94)),
        ("grb-flickr", 500, 600, 100, (-0.47, 0.99)),
        ("grb-cora", 12, None, None, None),
        ("mine", 302, None, None, None),
    ],
)
def test_grbs_datasets_take_their_published_budget(
    calls: list[Call],
    dataset: str,
    num_features: int,
    nodes: int | None,
    edges: int | None,
    limits: tuple[float, float] | None,
) -> None:
    """Table 5, with three times its nodes; only if name and number of features match."""
    models.gcn_at(num_features, 3, dataset).fit(view(num_features))
    [call] = calls
    assert call.settings.injected_nodes == nodes
    assert call.settings.edges_per_injected_node == edges
    assert call.settings.feature_range == limits
