"""The losses of the graph encoders computed by hand, and the results of their training."""

from __future__ import annotations

import dataclasses
import importlib
import math

import pytest
import torch
from hypothesis import given, settings
from sets_of_graphs import graph_batches, rings_and_triangles
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch

from grb_check.models.contrastive.adgcl import Augmenter, Game, mean_dropped, stands_still
from grb_check.models.contrastive.graph_graphcl import nt_xent
from grb_check.models.contrastive.graph_views import reverse_edges
from grb_check.models.contrastive.infograph import Discriminator, jensen_shannon_loss
from grb_check.models.published import GraphModel, GraphSettings
from grb_check.models.reference.graph_gin import GINStack
from grb_check.training.graph_batches import graphs_of
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
    made = getattr(room, name)(3, 2, "")
    assert isinstance(made, Encoder)
    return made


def test_the_jensen_shannon_loss_by_hand() -> None:
    """Two graphs of one and two nodes: the mean over graphs of means over their nodes."""
    scores = torch.tensor([[2.0, -1.0], [0.5, 1.0], [3.0, -2.0]])
    own = [math.log1p(math.exp(-2.0)), math.log1p(math.exp(-1.0)), math.log1p(math.exp(2.0))]
    others = [math.log1p(math.exp(each)) for each in (-1.0, 0.5, 3.0)]
    expected = (own[0] + (own[1] + own[2]) / 2) / 2 + sum(others) / 3
    found = jensen_shannon_loss(scores, torch.tensor([0, 1, 1]))
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_a_discriminator_scores_each_node_with_each_graph() -> None:
    """A score does not depend on the other nodes and graphs."""
    torch.manual_seed(0)
    scorer = Discriminator(4)
    nodes, graphs = torch.randn(5, 4), torch.randn(3, 4)
    scores = scorer(nodes, graphs)
    assert scores.shape == (5, 3)
    torch.testing.assert_close(scorer(nodes[2:3], graphs[1:2]), scores[2:3, 1:2])


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


@settings(deadline=None, max_examples=15)
@given(data=graph_batches())
def test_the_augmenter_weighs_both_directions_alike(data: Batch) -> None:
    """Weights are in (0, 1) and differentiable; `mean_dropped` is over graphs with edges."""
    torch.manual_seed(data.num_nodes)
    graphs = graphs_of(data)
    augmenter = Augmenter(GINStack(3, width=4, layers=2)).eval()
    weights = augmenter(graphs)
    assert torch.equal(weights, weights[reverse_edges(graphs)])
    assert bool(((weights > 0) & (weights < 1)).all())
    of_edges = graphs.batch[graphs.edge_index[0]]
    means = [1 - weights[of_edges == number].mean() for number in of_edges.unique().tolist()]
    expected = torch.stack(means).mean() if means else torch.tensor(0.0)
    torch.testing.assert_close(mean_dropped(graphs, weights), expected)
    if means:
        (gradient,) = torch.autograd.grad(weights.sum(), augmenter.perceptron[-1].weight)
        assert gradient.any()


def test_edges_of_weight_one_are_the_graph_itself() -> None:
    """The loss is then that of a graph and itself; with weights of 0, of a graph without edges."""
    torch.manual_seed(0)
    graphs = graphs_of(rings_and_triangles(4))
    game = Game(GINStack(3, width=4, layers=2)).eval()
    plain = game.head(game.encoder(graphs.x, graphs.edge_index, graphs.batch))
    ones = torch.ones(graphs.edge_index.shape[1])
    torch.testing.assert_close(game(graphs, ones), nt_xent(plain, plain))
    bare = game.head(game.encoder(graphs.x, graphs.edge_index[:, :0], graphs.batch))
    expected = (nt_xent(plain, bare) + nt_xent(bare, plain)) / 2
    torch.testing.assert_close(game(graphs, 0 * ones), expected)


def test_patience_counts_from_the_lowest_loss() -> None:
    """If several are equal, from the first."""
    assert not stands_still([3.0, 2.0, 2.5], 2)
    assert stands_still([3.0, 2.0, 2.5, 2.0], 2)


def test_adgcl_ends_when_its_loss_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a learning rate of 0 and no dropout the loss does not fall, so one epoch is run."""
    row = dataclasses.replace(TINY, lr=0.0, epochs=30, patience=1)
    made = encoder("adgcl", monkeypatch, row)
    room = importlib.import_module("grb_check.models.contrastive.adgcl")
    monkeypatch.setattr(room, "nt_xent", lambda first, second: first.sum() * 0)
    assert made.pretrain is not None
    assert made.pretrain(rings_and_triangles(8)) == [0.0, 0.0]


@pytest.mark.parametrize("name", ENCODERS)
def test_pretraining_lowers_the_loss_without_labels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder ends in evaluation mode, without the modules of the loss."""
    states = []
    for labels in (0, 1):
        made = encoder(name, monkeypatch)
        data = rings_and_triangles(32)
        data.y = torch.full_like(data.y, labels)
        names = set(made.module.state_dict())
        torch.manual_seed(1)
        assert made.pretrain is not None
        losses = made.pretrain(data)
        assert isinstance(losses, list)
        assert len(losses) == TINY.epochs
        assert losses[-1] < losses[0]
        assert isinstance(made.module, nn.Module)
        assert not any(part.training for part in made.module.modules())
        assert set(made.module.state_dict()) == names
        states.append(torch.cat([each.flatten() for each in made.module.parameters()]))
    assert torch.equal(states[0], states[1])


@pytest.mark.parametrize("name", ENCODERS)
def test_embeddings_tell_triangles_from_rings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A linear layer on the frozen embeddings classifies at least 9 of 10 graphs correctly."""
    made = encoder(name, monkeypatch)
    assert made.pretrain is not None
    made.pretrain(rings_and_triangles(64))
    embeddings = [embedded(made, rings_and_triangles(64, seed=seed)) for seed in (1, 2)]
    truth = torch.arange(64) % 2
    layer = nn.Linear(embeddings[0].shape[1], 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(layer(embeddings[0]), truth))
        optimizer.step()
    right = (layer(embeddings[1]).argmax(dim=1) == truth).float().mean()
    assert float(right) >= 0.9


def embedded(made: Encoder, data: Batch) -> Tensor:
    assert isinstance(made.module, nn.Module)
    with torch.no_grad():
        rows: Tensor = made.module(data.x, data.edge_index, data.batch)
    return rows
