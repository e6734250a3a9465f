"""The contrastive encoders for one graph, and the supervised GCN, as victims."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import resources

import pytest
import torch
from small_graphs import community_dataset
from torch import nn
from torch_geometric.data import Data

from grb_check import models
from grb_check.datasets.views import training_view
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.models.contrastive.dgi import pretrain as pretrain_dgi
from grb_check.models.contrastive.gca import pretrain as pretrain_gca
from grb_check.models.contrastive.gcn_encoder import GCNEncoder, minimise
from grb_check.models.contrastive.graphcl import pretrain as pretrain_graphcl
from grb_check.models.contrastive.graphcl_infomax import pretrain as pretrain_infomax
from grb_check.models.contrastive.node_views import AUGMENTATIONS
from grb_check.models.published import (
    NodeSettings,
    ViewSettings,
    node_settings,
)
from grb_check.training.building import build_victim
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.wrappers import Encoder, SelfTrained

Pretrain = Callable[[GCNEncoder, Data, NodeSettings], object]

FEW = NodeSettings(lr=0.01, epochs=20, patience=20, layers=2, width=16)
DATASET = community_dataset()
VIEW = training_view(DATASET)
PRETRAININGS: dict[str, Pretrain] = {
    "dgi": pretrain_dgi,
    "graphcl": pretrain_graphcl,
    **{f"infomax-{name}": partial(pretrain_infomax, augmentation=name) for name in AUGMENTATIONS},
    **{
        f"gca-{name}": partial(pretrain_gca, centrality=name, how=ViewSettings())
        for name in ("degree", "eigenvector", "pagerank")
    },
}
FACTORIES = [
    models.dgi,
    models.graphcl,
    models.graphcl_infomax,
    models.gca,
    models.gca_eigenvector,
    models.gca_pagerank,
]
each_pretraining = pytest.mark.parametrize(
    "pretrain", PRETRAININGS.values(), ids=PRETRAININGS.keys()
)


def encoder(seed: int = 0) -> GCNEncoder:
    with isolated_randomness(seed):
        return GCNEncoder(8, [FEW.width] * FEW.layers)


def victim_of(pretrain: Pretrain, seed: int = 0) -> Victim:
    module = encoder(seed)
    built = Encoder(module, lambda data: pretrain(module, data, FEW))
    return build_victim(built, DATASET, name="encoder", seed=seed, device=torch.device("cpu"))


def right(victim: Victim) -> float:
    """Accuracy on the test nodes."""
    nodes = DATASET.test["full"]
    logits = victim(DATASET.graph.x, DATASET.graph.edge_index)
    return float((logits.argmax(1) == DATASET.graph.y)[nodes].float().mean())


@each_pretraining
def test_a_probe_behind_a_pretrained_encoder_classifies(pretrain: Pretrain) -> None:
    """Chance is a third."""
    assert right(victim_of(pretrain)) > 0.75


@pytest.mark.parametrize("factory", FACTORIES)
def test_factories_have_the_widths_of_table_seven(factory: Callable[..., Encoder]) -> None:
    family = factory.__name__.partition("_")[0]
    title = {"dgi": "DGI", "graphcl": "GraphCL", "gca": "GCA"}[family]
    for dataset in ("planetoid-cora", "planetoid-pubmed", "ogbn-arxiv", "mine"):
        settings = node_settings(title, dataset)  # type: ignore[arg-type]
        built = factory(8, 3, dataset)
        assert callable(built.pretrain)
        assert isinstance(built.module, GCNEncoder)
        assert len(built.module.layers) == settings.layers
        assert built.module(torch.ones(2, 8), VIEW.edge_index[:, :0]).shape == (2, settings.width)


@pytest.mark.parametrize("factory", FACTORIES)
def test_factories_pretrain_with_the_settings_of_the_table(
    factory: Callable[..., Encoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = importlib.import_module(factory.__module__)
    monkeypatch.setattr(room, "node_settings", lambda *_: replace(FEW, epochs=3))
    built = factory(8, 3)
    assert built.pretrain is not None
    with isolated_randomness(0):
        run = built.pretrain(VIEW)
    assert run.epochs == 3  # type: ignore[attr-defined]


def test_settings_are_those_of_the_table_or_of_cora() -> None:
    text = (
        resources.files("grb_check")
        .joinpath("models/paper_figures/contrastive_models.json")
        .read_text()
    )
    assert set(json.loads(text)["models"]) == {"GCN", "DGI", "GraphCL", "GCA"}
    assert node_settings("GCA", "anything") == node_settings("GCA", "planetoid-cora")
    assert node_settings("DGI", "planetoid-pubmed").width == 256
    assert node_settings("GCN", "ogbn-arxiv") == NodeSettings(
        lr=0.01, epochs=500, patience=10, layers=3, width=256, dropout=0.5
    )


def test_the_supervised_gcn_trains_with_its_own_settings() -> None:
    built = models.gcn_kipf(8, 3)
    assert isinstance(built, SelfTrained)
    victim = build_victim(built, DATASET, name="gcn", seed=0, device=torch.device("cpu"))
    assert [layer.out_features for layer in victim.module.layers] == [16, 3]  # type: ignore
    assert right(victim) > 0.75
    assert victim.pair_gradients(
        DATASET.graph.x, DATASET.graph.edge_index, DATASET.test["full"], torch.sum
    )


class Falling(nn.Module):
    """A loss that falls for some steps, then rises."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Parameter(torch.zeros(()))

    def loss(self) -> torch.Tensor:
        return (self.steps - 0.35).abs()


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    module = Falling()
    with pytest.raises(ModelError, match="nan in epoch 1"):
        minimise(module, lambda: module.loss() * float("nan"), FEW)
