"""Victims of what factories return: their features, outputs, and attributes of edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, RGCNConv
from torch_geometric.utils import subgraph

import grb_check
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.given_edges import EdgeAttribute, SeenEdges, given_edges
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim, check_built
from grb_check.victims.adjacency import AdjacencyRule
from grb_check.victims.checks import FeatureTypeWarning
from grb_check.victims.probed import Probed

CPU = torch.device("cpu")
DATASET = community_dataset()


def whole_numbers() -> Dataset:
    """Features of whole numbers from 0, given as integers."""
    graph = DATASET.graph.clone()
    graph.x = (2 * graph.x).round() - (2 * graph.x).round().min()
    return replace(DATASET, graph=graph, given_dtype="int64", features="given")


def two_classes() -> Dataset:
    graph = DATASET.graph.clone()
    graph.y = graph.y.clamp(max=1)
    return replace(DATASET, graph=graph, num_classes=2)


def build(built: object, dataset: Dataset) -> Victim:
    return build_victim(built, dataset, name="m", seed=0, device=CPU)


class Embeds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 4)
        self.out = nn.Linear(32, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.table(x).flatten(1))


class Fits(Embeds):
    def fit(self, data: Data) -> None:
        assert data.x.dtype == torch.int64


class OneOutput(nn.Module):
    """A logit, or the probability of class 1."""

    def __init__(self, *, flat: bool = False, sigmoid: bool = False) -> None:
        super().__init__()
        self.out = nn.Linear(8, 1)
        self.flat, self.sigmoid = flat, sigmoid

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.out(x)
        z = z.sigmoid() if self.sigmoid else z
        return z[:, 0] if self.flat else z


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(8, 16)
        self.last = GCNConv(16, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        hidden = self.first(x, edge_index, edge_weight).relu()
        logits: Tensor = self.last(hidden, edge_index, edge_weight)
        return logits


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.StructureIgnoredWarning")
@pytest.mark.parametrize("model", [Embeds, Fits])
def test_integer_features_reach_the_model_as_they_were_given(model: type[nn.Module]) -> None:
    """In its own training, and in every call of the harness, which has floats."""
    victim = build(model(), whole_numbers())
    assert victim.adapter.x_dtype == torch.int64
    x = whole_numbers().graph.x
    assert x.dtype == torch.float32
    assert victim(x, DATASET.graph.edge_index).shape == (DATASET.num_nodes, 3)


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.StructureIgnoredWarning")
def test_a_model_that_fails_with_integers_gets_floats() -> None:
    """A warning says so; features that are scaled are floats anyway."""
    with pytest.warns(FeatureTypeWarning, match=r"fails with x as it is in the data, int64"):
        victim = build(Weighted(), whole_numbers())
    assert victim.adapter.x_dtype == torch.float32
    assert build(Weighted(), replace(whole_numbers(), features="rows")).adapter.x_dtype is None


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("sigmoid", [False, True])
def test_one_output_for_two_classes_is_trained_and_read(flat: bool, sigmoid: bool) -> None:
    """Class 1 where the logit is positive, or the probability above one half."""
    dataset = two_classes()
    victim = build(OneOutput(flat=flat, sigmoid=sigmoid), dataset)
    graph = dataset.graph
    logits = victim(graph.x, graph.edge_index)
    assert logits.shape == (dataset.num_nodes, 2)
    positive = victim.module.out(graph.x)[:, 0] > 0
    assert torch.equal(logits.argmax(1), positive.long())
    nodes = dataset.test["full"]
    assert float((logits.argmax(1) == graph.y)[nodes].float().mean()) > 0.7


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
def test_one_output_for_three_classes_is_still_wrong() -> None:
    """And the message has its shape."""
    with pytest.raises(ModelError, match=r"got shape \[60, 1\]"):
        build(OneOutput(), DATASET)


def with_edges(*, types: bool = False, transductive: bool = False) -> Dataset:
    """Half of the edges in one direction, some twice, self-loops, and weights or types."""
    graph = DATASET.graph
    forth = graph.edge_index[0] < graph.edge_index[1]
    kept = forth | (graph.edge_index.sum(0) % 2 == 0)
    loops = torch.arange(9).expand(2, -1)
    edges = torch.cat([graph.edge_index[:, kept], loops, graph.edge_index[:, :5]], dim=1)
    numbers = torch.arange(edges.shape[1])
    attributes: dict[EdgeAttribute, Tensor] = (
        {"edge_type": numbers % 3} if types else {"edge_weight": 0.5 + numbers % 4}
    )
    given = given_edges(edges, attributes, DATASET.num_nodes)
    return replace(DATASET, given_edges=given, transductive=transductive)


class Relational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([RGCNConv(8, 16, 3), RGCNConv(16, 3, 3)])

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        hidden = self.layers[0](x, edge_index, edge_type).relu()
        logits: Tensor = self.layers[1](hidden, edge_index, edge_type)
        return logits


class OfData(Weighted):
    def forward(self, data: Data) -> Tensor:  # type: ignore[override]
        return super().forward(data.x, data.edge_index, data.edge_weight)


class OfMatrix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 3)])

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        logits: Tensor = adj @ self.layers[1]((adj @ self.layers[0](x)).relu())
        return logits


def expected_of(module: nn.Module, x: Tensor, edges: SeenEdges) -> Tensor:
    """The module's output in the form of its class."""
    index, attributes = edges.edge_index, edges.attributes
    if isinstance(module, OfData):
        return module(Data(x=x, edge_index=index, **attributes))  # type: ignore[no-any-return]
    if isinstance(module, OfMatrix):
        dense = torch.zeros(len(x), len(x))
        dense.index_put_(tuple(index), attributes["edge_weight"], accumulate=True)
        return module(x, dense)  # type: ignore[no-any-return]
    return module(x, index, *attributes.values())  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
@pytest.mark.parametrize("kind", [Weighted, OfData, Relational, OfMatrix])
def test_a_model_gets_the_edges_as_they_were_given(kind: type[nn.Module]) -> None:
    """On the clean graph, with flips, and with injected nodes, whose edges are new."""
    dataset = with_edges(types=kind is Relational)
    built = grb_check.wrap(kind(), forward="x, adj", adj="raw") if kind is OfMatrix else kind()
    victim = build(built, dataset)
    graph, given = dataset.graph, dataset.given_edges
    assert given is not None
    assert given.numbers[0] == 9
    assert given.numbers[1]
    x = torch.cat([graph.x, graph.x[:1]])
    new = torch.tensor([[120, 5, 1, 8], [5, 120, 8, 1]])
    for features, pairs in (
        (graph.x, graph.edge_index),
        (graph.x, graph.edge_index[:, 20:]),
        (x, torch.cat([graph.edge_index, new], dim=1)),
    ):
        seen = given.seen(pairs, len(features))
        expected = expected_of(victim.module, features, seen)
        torch.testing.assert_close(victim(features, pairs), expected)
        assert seen.edge_index.shape != pairs.shape


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
@pytest.mark.parametrize(
    ("kind", "adj"),
    [
        (Weighted, None),
        (OfData, None),
        (Relational, None),
        (OfMatrix, "raw"),
        (OfMatrix, "row"),
        (OfMatrix, "sym"),
    ],
)
def test_weights_of_pairs_are_those_of_all_of_their_edges(
    kind: type[nn.Module], adj: AdjacencyRule | None
) -> None:
    """Of removed and of added pairs: the logits of the flipped graph, and a gradient."""
    dataset = with_edges(types=kind is Relational)
    built = grb_check.wrap(kind(), forward="x, adj", adj=adj) if adj else kind()
    victim = build(built, dataset)
    x, edges = dataset.graph.x, dataset.graph.edge_index
    forth = edges[:, edges[0] < edges[1]]
    absent = torch.tensor([[0, 0, 1], [1, 2, 2]])
    absent = absent[:, [(forth != pair[:, None]).any(0).all().item() for pair in absent.T]]
    pairs = torch.cat([forth[:, :30], absent], dim=1)
    weighted = victim.with_pairs(x, edges, pairs, torch.arange(120))
    assert weighted is not None
    flipped = torch.arange(pairs.shape[1]) % 2 == 0
    present = torch.arange(pairs.shape[1]) < 30
    weights = (present ^ flipped).float().requires_grad_()
    logits = weighted(weights)
    gone, come = pairs[:, flipped & present], pairs[:, flipped & ~present]
    left = edges[:, [not (gone == pair.sort().values[:, None]).all(0).any() for pair in edges.T]]
    attacked = torch.cat([left, come, come.flip(0)], dim=1)
    torch.testing.assert_close(logits, victim(x, attacked), atol=1e-4, rtol=1e-4)
    logits.logsumexp(1).sum().backward()  # type: ignore[no-untyped-call]
    assert weights.grad is not None
    assert weights.grad.count_nonzero() > 20


@pytest.mark.parametrize("transductive", [False, True])
def test_own_training_gets_the_edges_as_they_were_given(transductive: bool) -> None:
    """Those between the nodes of its view."""
    dataset = with_edges(types=True, transductive=transductive)
    views: list[Data] = []
    build(grb_check.SelfTrained(Relational(), views.append), dataset)
    [view] = views
    given = dataset.given_edges
    assert given is not None
    nodes = torch.arange(120) if transductive else dataset.train
    inside, types = subgraph(
        nodes, given.edge_index, given.attributes["edge_type"][:-1], relabel_nodes=True
    )
    assert sorted(zip(*inside.tolist(), types.tolist(), strict=True)) == sorted(
        zip(*view.edge_index.tolist(), view.edge_type.tolist(), strict=True)
    )
    assert "given_edges" not in view


def test_an_encoder_gets_the_edges_as_they_were_given() -> None:
    """For its probe, and under attack."""
    dataset = with_edges(types=True)
    victim = build(grb_check.Encoder(Relational().eval()), dataset)
    graph, given = dataset.graph, dataset.given_edges
    assert given is not None
    seen = given.seen(graph.edge_index, 120)
    probed = victim.module
    assert isinstance(probed, Probed)
    embeddings = expected_of(probed.encoder, graph.x, seen)
    torch.testing.assert_close(victim(graph.x, graph.edge_index), probed.linear(embeddings))


def test_a_model_that_requires_what_the_data_lacks_is_refused() -> None:
    """Before it is called."""
    with pytest.raises(ModelError, match=r"requires edge_type, but .* has no edge_type; put it"):
        check_built(Relational(), with_edges(), "m")
