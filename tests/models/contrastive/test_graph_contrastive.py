"""The losses of the graph encoders computed by hand, and the results of their training."""

from __future__ import annotations

import dataclasses
import importlib
import math

import pytest
import torch
from sets_of_graphs import rings_and_triangles
from torch import nn

from grb_check.models.contrastive.graph_graphcl import nt_xent
from grb_check.models.contrastive.infograph import jensen_shannon_loss
from grb_check.models.published import GraphModel, GraphSettings
from grb_check.victims.wrappers import Encoder

ENCODERS = ["infograph", "graph_graphcl", "adgcl"]
TINY = GraphSettings(lr=0.01, epochs=4, layers=2, width=8, batch_size=16)


def encoder(name: str, monkeypatch: pytest.MonkeyPatch, row: GraphSettings = TINY) -> Encoder:
    """A small encoder with a few epochs."""
    room = importlib.import_module(f"grb_check.models.contrastive.{name}")

    def tiny(model: GraphModel, dataset: str) -> GraphSettings:
        return row

    monkeypatch.setattr(room, "graph_settings", tiny)
    torch.manual_seed(0)
    contrastive_model = getattr(room, name)(3, 2, "")
    assert isinstance(contrastive_model, Encoder)
    return contrastive_model


def test_the_jensen_shannon_loss_by_hand() -> None:
    """Two graphs of one and two nodes: the mean over graphs of means over their nodes."""
    scores = torch.tensor([[2.0, -1.0], [0.5, 1.0], [3.0, -2.0]])
    positive = [math.log1p(math.exp(-2.0)), math.log1p(math.exp(-1.0)), math.log1p(math.exp(2.0))]
    others = [math.log1p(math.exp(score)) for score in (-1.0, 0.5, 3.0)]
    expected = (positive[0] + (positive[1] + positive[2]) / 2) / 2 + sum(others) / 3
    loss = jensen_shannon_loss(scores, torch.tensor([0, 1, 1]))
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_nt_xent_by_hand() -> None:
    """The positive pair is not in the sum, and lengths do not matter."""
    first = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    second = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 5.0]])
    half = math.sqrt(0.5)
    cosines = [[1.0, half, 0.0], [0.0, half, 1.0], [half, 1.0, half]]
    terms = []
    for i, row in enumerate(cosines):
        others = sum(math.exp(value / 0.5) for j, value in enumerate(row) if j != i)
        terms.append(-math.log(math.exp(row[i] / 0.5) / others))
    assert float(nt_xent(first, second, 0.5)) == pytest.approx(sum(terms) / 3, rel=1e-5)


def test_adgcl_ends_when_its_loss_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a learning rate of 0 and no dropout the loss does not fall, so one epoch is run."""
    row = dataclasses.replace(TINY, lr=0.0, epochs=30, patience=1)
    model = encoder("adgcl", monkeypatch, row)
    room = importlib.import_module("grb_check.models.contrastive.adgcl")
    monkeypatch.setattr(room, "nt_xent", lambda first, second: first.sum() * 0)
    assert model.pretrain is not None
    assert model.pretrain(rings_and_triangles(8)) == [0.0, 0.0]


@pytest.mark.parametrize("name", ENCODERS)
def test_pretraining_lowers_the_loss_without_labels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder ends in evaluation mode, without the modules of the loss."""
    states = []
    for labels in (0, 1):
        model = encoder(name, monkeypatch)
        data = rings_and_triangles(32)
        data.y = torch.full_like(data.y, labels)
        names = set(model.module.state_dict())
        torch.manual_seed(1)
        assert model.pretrain is not None
        losses = model.pretrain(data)
        assert isinstance(losses, list)
        assert len(losses) == TINY.epochs
        assert losses[-1] < losses[0]
        assert isinstance(model.module, nn.Module)
        assert not any(part.training for part in model.module.modules())
        assert set(model.module.state_dict()) == names
        states.append(torch.cat([parameter.flatten() for parameter in model.module.parameters()]))
    assert torch.equal(states[0], states[1])
