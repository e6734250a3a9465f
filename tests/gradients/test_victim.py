"""Building a checked victim from what a factory returned, for every convention."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.errors import GradientError, ModelError, UsageError
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN
from grb_check.training.building import build_victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.checks import (
    AdjacencyWarning,
    AssumedEncoderWarning,
    ModelWarning,
    ProbabilitiesWarning,
    RandomForwardWarning,
    StateUncheckedWarning,
    StructureIgnoredWarning,
)
from grb_check.victims.conventions import detect_convention
from grb_check.victims.subject import as_subject
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained, wrap

DATASET = community_dataset()
GRAPH = DATASET.graph
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _no_warning_unnoticed() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        warnings.simplefilter("ignore", AdjacencyWarning)  # that of tests/training has its own
        yield


def build(built: object, seed: int = 0) -> Victim:
    return build_victim(built, DATASET, name="mypkg:build", seed=seed, device=CPU)


def accuracy(victim: Victim) -> float:
    predicted = victim(GRAPH.x, GRAPH.edge_index).argmax(dim=1)
    nodes = DATASET.test["full"]
    return float((predicted[nodes] == GRAPH.y[nodes]).float().mean())


class Base(nn.Module):
    """A mean over neighbours and the node itself, and a linear layer; subclasses add forward."""

    def __init__(self, out: int = 3) -> None:
        super().__init__()
        self.own = nn.Linear(8, out)
        self.mean = nn.Linear(8, out, bias=False)

    def combine(self, x: Tensor, mean: Tensor) -> Tensor:
        return self.own(x) + self.mean(mean)

    def by_edges(self, x: Tensor, edges: Tensor, weight: Tensor | None = None) -> Tensor:
        messages = x[edges[0]] if weight is None else x[edges[0]] * weight[:, None]
        return self.combine(x, torch.zeros_like(x).index_add(0, edges[1], messages) / 4)


class EdgeIndex(Base):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.by_edges(x, edge_index)


class OtherNames(Base):
    def forward(self, feats: Tensor, edges: Tensor, *, training: bool = False) -> Tensor:
        return self.by_edges(feats, edges)


class UnknownNames(Base):
    def forward(self, nodes: Tensor, links: Tensor) -> Tensor:
        return self.by_edges(nodes, links)


class Swapped(Base):
    def forward(self, edge_index: Tensor, x: Tensor) -> Tensor:
        return self.by_edges(x, edge_index)


class OptionalWeight(Base):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.by_edges(x, edge_index, edge_weight)


class RequiredWeight(Base):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.by_edges(x, edge_index, edge_weight)


class WithBatch(Base):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        assert batch.dtype == torch.int64
        return self.by_edges(x + 0 * batch[:, None], edge_index)


class WeightAndBatch(Base):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, batch: Tensor) -> Tensor:
        return self.by_edges(x + 0 * batch[:, None], edge_index, edge_weight)


class WholeData(Base):
    def forward(self, data: Data) -> Tensor:
        return self.by_edges(data.x, data.edge_index)


class DataByAnyName(Base):
    def forward(self, batch: Data) -> Tensor:
        return self.by_edges(batch.x, batch.edge_index)


class TorchAdjT(Base):
    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        assert adj_t.layout == torch.sparse_csr
        return self.combine(x, adj_t @ x / 4)


class PygAdjT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(8, 3)

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        return self.conv(x, adj_t)


class GrbAdj(Base):
    def forward(self, x: Tensor, adj: Tensor, dropout: float = 0.0) -> Tensor:
        assert adj.layout == torch.sparse_coo
        return self.combine(x, torch.sparse.mm(adj, x) / 4)


class GrbNormalised(Base):
    def __init__(self) -> None:
        super().__init__()
        self.adj_norm_func = self.halve

    @staticmethod
    def halve(adjacency: sp.csr_matrix) -> sp.csr_matrix:
        assert sp.issparse(adjacency)
        return adjacency / 4

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return self.combine(x, torch.sparse.mm(adj, x))


class Variadic(Base):
    def forward(self, *args: Tensor) -> Tensor:
        return self.by_edges(*args)


class WithTopology(Base):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.on_topology(edge_index, x.shape[0])(x)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        return lambda x: self.by_edges(x, edge_index)


CONVENTIONS = [
    (EdgeIndex, "(x, edge_index)"),
    (OtherNames, "(x, edge_index)"),
    (UnknownNames, "(x, edge_index)"),
    (Swapped, "(edge_index, x)"),
    (OptionalWeight, "(x, edge_index, edge_weight)"),
    (RequiredWeight, "(x, edge_index, edge_weight)"),
    (WithBatch, "(x, edge_index, batch)"),
    (WeightAndBatch, "(x, edge_index, edge_weight, batch)"),
    (WholeData, "(data)"),
    (DataByAnyName, "(data)"),
    (TorchAdjT, "(x, adj_t)"),
    (PygAdjT, "(x, adj_t)"),
    (GrbAdj, "(x, adj)"),
    (GrbNormalised, "(x, adj)"),
    (Variadic, "(x, edge_index)"),
    (WithTopology, "(x, edge_index)"),
]


@pytest.mark.parametrize(
    ("kind", "convention"), CONVENTIONS, ids=lambda v: getattr(v, "__name__", "")
)
def test_every_convention_is_detected_trained_and_differentiable(
    kind: type[nn.Module], convention: str
) -> None:
    """Each is trained by the harness, learns, and has gradients in features on either path."""
    torch.manual_seed(0)
    victim = build(kind())
    assert str(victim.adapter.convention) == convention
    assert accuracy(victim) > 0.7
    x = GRAPH.x.clone().requires_grad_()
    prepared = victim.on_topology(GRAPH.edge_index, DATASET.num_nodes)(x)
    direct = victim(x, GRAPH.edge_index)
    torch.testing.assert_close(prepared, direct)
    (gradient,) = torch.autograd.grad(prepared[0].sum() + direct[1].sum(), x)
    assert gradient.abs().sum() > 0
    assert not any(p.requires_grad for p in victim.module.parameters())
    assert not victim.module.training


def test_all_conventions_compute_the_same_from_the_same_weights() -> None:
    """The arguments of all conventions describe the same graph, also an asymmetric one."""
    arrow = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    x = torch.randn(4, 8)
    weights = Base().state_dict()
    expected = None
    for kind, _ in CONVENTIONS:
        if kind in (PygAdjT, GrbAdj, GrbNormalised):  # adj is not transposed, adj_t is
            continue
        module = kind()
        module.load_state_dict(weights)
        victim = Victim(_adapter(module), 3)
        expected = victim(x, arrow) if expected is None else expected
        torch.testing.assert_close(victim(x, arrow), expected)


def _adapter(module: nn.Module) -> Adapter:
    return Adapter(module, "m", detect_convention(module, "forward", "m"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.models.GCN(8, 16, 2, 3),
        lambda: pyg.models.GAT(8, 16, 2, 3),
        lambda: pyg.models.GIN(8, 16, 2, 3),
        lambda: pyg.models.GraphSAGE(8, 16, 2, 3),
        lambda: pyg.models.GCN(-1, 16, 2, 3),
        lambda: pyg.models.GraphSAGE((-1, -1), 16, 2, 3, norm="batch_norm"),
        lambda: pyg.Sequential("x, e", [(pyg.GCNConv(8, 3), "x, e -> x")]),
    ],
    ids=["GCN", "GAT", "GIN", "GraphSAGE", "lazy GCN", "lazy SAGE", "Sequential"],
)
def test_pyg_models_are_trained(make: Callable[[], nn.Module]) -> None:
    """PyG's own models learn, with lazy sizes too; only the GCN takes edge weights."""
    torch.manual_seed(0)
    victim = build(make())
    assert accuracy(victim) > 0.7
    assert victim.takes_edge_weight == isinstance(victim.module, pyg.models.GCN)


def test_edge_weights_are_refused_where_they_would_be_ignored() -> None:
    """Otherwise an attack on weights would measure nothing."""
    weight = torch.ones(GRAPH.edge_index.shape[1])
    with pytest.raises(ModelError, match=r"takes no edge weights: it is called as \(x, edge_index"):
        build(EdgeIndex())(GRAPH.x, GRAPH.edge_index, weight)


def _linked(count: int, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of injected nodes, weights of 0 and 1 to each target, and the edges of weight 1."""
    torch.manual_seed(1)
    weights = (torch.rand(count, targets.numel()) < 0.4).float()
    new, target_index = weights.nonzero().T
    links = torch.stack([new + DATASET.num_nodes, targets[target_index]])
    edges = torch.cat([GRAPH.edge_index, links, links.flip(0)], dim=1)
    return torch.randn(count, 8), weights, edges


@pytest.mark.parametrize(
    "make",
    [
        OptionalWeight,
        RequiredWeight,
        WeightAndBatch,
        TorchAdjT,
        GrbAdj,
        GrbNormalised,
        lambda: pyg.models.GCN(8, 16, 2, 3),
        lambda: pyg.models.GAT(8, 16, 2, 3),
        lambda: pyg.models.GIN(8, 16, 2, 3),
        lambda: pyg.models.GraphSAGE(8, 16, 2, 3),
        lambda: pyg.GraphConv(8, 3, aggr="mean"),
    ],
    ids=[
        "optional",
        "required",
        "and batch",
        "adj_t",
        "adj",
        "normalised adj",
        "PyG's GCN",
        "PyG's GAT",
        "PyG's GIN",
        "PyG's GraphSAGE",
        "mean",
    ],
)
def test_links_can_be_relaxed_where_edges_can_be_weighted(make: Callable[[], nn.Module]) -> None:
    """Weights of 0 and 1 equal a full call; every link has a gradient."""
    torch.manual_seed(0)
    victim = Victim(_adapter(make().eval()), 3)
    targets = torch.tensor([7, 0, 31])
    injected, weights, edges = _linked(4, targets)
    logits_of = victim.with_links(GRAPH.x, GRAPH.edge_index, 4, targets, targets)
    assert logits_of is not None
    weights.requires_grad_()
    actual = logits_of(injected, weights)
    whole = victim(torch.cat([GRAPH.x, injected]), edges)
    torch.testing.assert_close(actual, whole[targets], rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(actual.square().sum(), weights)
    assert gradient.all()


class Choosing(nn.Module):
    """Drops the edges of senders with large features."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pyg.SAGEConv(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        loud = x.norm(dim=1) > 1e3
        return self.layer(x, edge_index[:, ~loud[edge_index[0]]] if loud.any() else edge_index)


def test_links_of_a_model_that_chooses_edges_by_features_are_edges() -> None:
    """A trial with usual features does not show that it does; there is no gradient in weights."""
    torch.manual_seed(0)
    victim = Victim(_adapter(Choosing().eval()), 3)
    targets = torch.tensor([7, 0, 31])
    injected, weights, edges = _linked(4, targets)
    logits_of = victim.with_links(GRAPH.x, GRAPH.edge_index, 4, targets, targets)
    assert logits_of is not None
    for features in (injected, 1e4 * injected):
        with torch.no_grad():
            actual = logits_of(features, weights)
        whole = victim(torch.cat([GRAPH.x, features]), edges)
        torch.testing.assert_close(actual, whole[targets], rtol=1e-5, atol=1e-5)
    with pytest.raises(GradientError, match="in weights of links"):
        logits_of(1e4 * injected, weights.requires_grad_())


class OfNumpy(Base):
    """Its edges are counted where no operation is seen."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        degrees = np.bincount(edge_index[1].numpy(), minlength=len(x))
        return self.by_edges(x, edge_index) / (1 + torch.from_numpy(degrees)[:, None])


def test_links_cannot_be_relaxed_where_edges_cannot_be_weighted() -> None:
    """There is no map, and attacks report this."""
    victim = Victim(_adapter(OfNumpy().eval()), 3)
    targets = torch.tensor([7, 0, 31])
    assert victim.with_links(GRAPH.x, GRAPH.edge_index, 4, targets, targets) is None


def test_links_are_relaxed_up_to_a_number_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers that take no weights may send them along every link."""
    targets = torch.tensor([7, 0, 31])
    relaxed = []
    monkeypatch.setattr("grb_check.gradients.victim.MOST_DENSE_PAIRS", 0)
    for most in (96, 95):
        monkeypatch.setattr("grb_check.gradients.victim.MOST_VALUES", most)
        for module in (pyg.models.GIN(8, 16, 2, 3), OptionalWeight()):
            victim = Victim(_adapter(module.eval()), 3)
            logits_of = victim.with_links(GRAPH.x, GRAPH.edge_index, 4, targets, targets)
            relaxed.append(logits_of is not None)
    assert relaxed == [True, True, False, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: GCN(8, 3, (16,)),
        lambda: GIN(8, 3, (16,)),
        lambda: pyg.models.GCN(8, 16, 2, 3),
        lambda: pyg.models.GAT(8, 16, 2, 3),
    ],
    ids=["our GCN", "our GIN", "PyG's GCN", "PyG's GAT"],
)
def test_pairs_have_weights(make: Callable[[], nn.Module]) -> None:
    """Logits of the targets, in order, equal those of the graph with an edge removed and added."""
    torch.manual_seed(0)
    victim = Victim(_adapter(make().eval()), 3)
    targets = torch.tensor([7, 0, 31])
    pairs = torch.stack([GRAPH.edge_index[:, 9].sort().values, torch.tensor([0, 31])], dim=1)
    ends = GRAPH.edge_index.sort(dim=0).values
    others = GRAPH.edge_index[:, (ends != pairs[:, :1]).any(dim=0)]
    edges = torch.cat([others, pairs[:, 1:], pairs[:, 1:].flip(0)], dim=1)
    logits_of = victim.with_pairs(GRAPH.x, GRAPH.edge_index, pairs, targets)
    assert logits_of is not None
    weights = torch.tensor([0.0, 1.0], requires_grad=True)
    actual = logits_of(weights)
    torch.testing.assert_close(actual, victim(GRAPH.x, edges)[targets], rtol=1e-4, atol=1e-5)
    assert torch.autograd.grad(actual.square().sum(), weights)[0][1] != 0


@pytest.mark.parametrize(
    "make",
    [
        EdgeIndex,
        WholeData,
        TorchAdjT,
        lambda: GCN(8, 3, (16,)),
        lambda: GIN(8, 3, (16,)),
        lambda: pyg.models.GCN(8, 16, 2, 3),
        lambda: pyg.models.GAT(8, 16, 2, 3),
        lambda: pyg.models.GCN(8, 16, 1, 3),
    ],
    ids=[
        "EdgeIndex",
        "WholeData",
        "TorchAdjT",
        "our GCN",
        "our GIN",
        "PyG's GCN",
        "PyG's GAT",
        "one layer",
    ],
)
def test_injected_features_are_mapped_to_logits_of_the_targets(
    make: Callable[[], nn.Module],
) -> None:
    """On the whole graph or a part of it: logits and gradient of a full call, in order."""
    torch.manual_seed(0)
    victim = Victim(_adapter(make().eval()), 3)
    targets = torch.tensor([7, 0, 31])
    injected, _, edges = _linked(4, targets)
    injected.requires_grad_()
    actual = victim.with_injected(GRAPH.x, edges, 4, targets)(injected)
    whole = victim(torch.cat([GRAPH.x, injected]), edges)[targets]
    torch.testing.assert_close(actual, whole, rtol=1e-5, atol=1e-5)
    gradients = [
        torch.autograd.grad(logits.square().sum(), injected)[0] for logits in (actual, whole)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_victim_and_leaves_the_global_state() -> None:
    """Training uses the seed only, and does not disturb the user's random numbers."""
    torch.manual_seed(3)
    logits = []
    for _ in range(2):
        module = pyg.models.GCN(8, 16, 2, 3, dropout=0.5)
        module.load_state_dict({k: torch.full_like(v, 0.1) for k, v in module.state_dict().items()})
        torch.rand(1)
        before = torch.get_rng_state()
        logits.append(build(module, seed=5)(GRAPH.x, GRAPH.edge_index))
        assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*logits)


class OwnFit(EdgeIndex):
    def fit(self, data: Data) -> None:
        self.seen = data
        with torch.no_grad():
            self.own.weight.fill_(float(np.random.rand()))


def test_own_fit_gets_the_training_view_and_our_seed() -> None:
    """It gets training nodes only, and its random numbers are repeatable."""
    first, again, other = (build(OwnFit(), seed=s).module for s in (1, 1, 2))
    assert isinstance(first, OwnFit)
    assert first.seen.x.shape[0] == DATASET.train.numel()
    assert torch.equal(first.own.weight, again.own.weight)  # type: ignore[union-attr]
    assert not torch.equal(first.own.weight, other.own.weight)  # type: ignore[union-attr]


def test_self_trained_is_trained_by_its_fit_and_is_the_victim() -> None:
    """It gets both views and our seed; the module is a classifier even if it has `encode`."""
    seen: dict[str, int] = {}

    def trained(seed: int, *, encode: bool = False) -> Victim:
        module = EdgeIndex()
        if encode:
            module.encode = module.forward  # type: ignore[assignment]

        def fit(data: Data, validation: Data) -> None:
            seen.update(data=data.x.shape[0], validation=validation.x.shape[0])
            nn.init.normal_(module.own.weight)

        victim = build(SelfTrained(module, fit), seed)
        assert victim.module is module
        return victim

    first, again, other = trained(1), trained(1), trained(2, encode=True)
    assert seen == {
        "data": DATASET.train.numel(),
        "validation": DATASET.train.numel() + DATASET.val.numel(),
    }
    outputs = [victim(GRAPH.x, GRAPH.edge_index) for victim in (first, again, other)]
    weights = [victim.module.own.weight for victim in (first, again, other)]
    assert torch.equal(weights[0], weights[1])  # type: ignore[arg-type]
    assert not torch.equal(weights[0], weights[2])  # type: ignore[arg-type]
    assert all(output.shape == (DATASET.num_nodes, 3) for output in outputs)


def test_self_trained_without_a_function_is_refused() -> None:
    """The message says what `fit` must be."""
    with pytest.raises(
        ModelError, match=r"fit of grb_check.SelfTrained is a int; it must be a function"
    ):
        build(SelfTrained(EdgeIndex(), 3))  # type: ignore[arg-type]


def test_self_trained_needs_a_factory() -> None:
    """Each repeat trains a new one; a trained model is `Trained`."""
    with pytest.raises(UsageError, match=r"pass the factory that makes it.*grb_check\.Trained"):
        as_subject(SelfTrained(EdgeIndex(), lambda data: None))


def test_trained_is_used_as_it_is_and_left_alone() -> None:
    """Its outputs are the same, and the user's module is neither frozen nor changed."""
    module = EdgeIndex().eval()
    victim = build(Trained(module))
    assert torch.equal(victim(GRAPH.x, GRAPH.edge_index), module(GRAPH.x, GRAPH.edge_index))
    assert all(p.requires_grad for p in module.parameters())


class Embedder(Base):
    def __init__(self) -> None:
        super().__init__(out=24)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.tanh(self.by_edges(x, edge_index))


class WithEncode(Embedder):
    def encode(self, data: Data) -> Tensor:
        return torch.tanh(self.by_edges(data.x, data.edge_index))

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("only encode may be called")


class EncodeAndFit(WithEncode):
    calls = 0

    def fit(self, data: Data) -> None:
        self.calls = self.calls + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Encoder(Embedder().eval()),
        lambda: Encoder(WithEncode().eval()),
        EncodeAndFit,
        lambda: Encoder(wrap(Embedder().eval(), forward="x, edge_index")),
    ],
    ids=["Encoder", "Encoder with encode", "encode and fit", "wrapped"],
)
def test_encoders_get_a_probe(make: Callable[[], object]) -> None:
    """Encoder and probe return differentiable logits that are better than chance."""
    torch.manual_seed(0)
    victim = build(make())
    assert accuracy(victim) > 0.7
    x = GRAPH.x.clone().requires_grad_()
    logits = victim.on_topology(GRAPH.edge_index, DATASET.num_nodes)(x)
    torch.testing.assert_close(logits, victim(x, GRAPH.edge_index))
    assert torch.autograd.grad(logits.sum(), x)[0].abs().sum() > 0
    assert not any(p.requires_grad for p in victim.module.parameters())


def test_a_module_with_encode_alone_is_an_encoder_with_a_warning() -> None:
    """A classifier with a helper of that name would not be trained, so there is a warning."""
    torch.manual_seed(0)
    with pytest.warns(AssumedEncoderWarning, match=r"grb_check\.Encoder\(module\) to confirm"):
        victim = build(WithEncode())
    assert accuracy(victim) > 0.7


@pytest.mark.parametrize("text", ["", "x", "x, edges", "x, x, edge_index", "x; adj"])
def test_wrap_refuses_what_it_cannot_pass(text: str) -> None:
    """The message lists the allowed names."""
    with pytest.raises(UsageError, match="give a list such as 'x, adj_t'"):
        wrap(EdgeIndex(), forward=text)


class Unfillable(Base):
    def forward(self, x: Tensor, edge_index: Tensor, edge_times: Tensor) -> Tensor:
        return self.by_edges(x, edge_index)


class Raises(Base):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.own(x[:, :5])


class WrongShape(EdgeIndex):
    def __init__(self) -> None:
        super().__init__(out=4)


class OneRow(EdgeIndex):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index).mean(dim=0, keepdim=True)


class Classes(EdgeIndex):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return (super().forward(x, edge_index) > 0).long()


class Booleans(EdgeIndex):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) > 0


class TwoResults(EdgeIndex):
    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        return x, super().forward(x, edge_index)


class NotANumber(EdgeIndex):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) / 0


class NoParameters(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x[:, :3]


class Detached(EdgeIndex):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index).detach()


class CachedLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = pyg.GCNConv(8, 3, cached=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.first(x, edge_index)


class KeepsGraph(EdgeIndex):
    kept: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.kept = edge_index if self.kept is None else self.kept
        return self.by_edges(x, self.kept)


class KeepsGraphOfEachSize(EdgeIndex):
    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, int], Tensor] = {}

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        size = (x.shape[0], edge_index.shape[1])
        return self.by_edges(x, self.kept.setdefault(size, edge_index))


class OneGraphOnly(EdgeIndex):
    kept: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.kept is not None and not torch.equal(self.kept, edge_index):
            raise ValueError("another graph")
        self.kept = edge_index
        return super().forward(x, edge_index)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Unfillable, r"no argument is known for edge_times; supported are \(x, edge_index\)"),
        (Raises, r"called as \(x, edge_index\) with Tensor \[60, 8\].*\n.*test_victim\.py"),
        (WrongShape, r"must return a float tensor \[60, 3\].*got shape \[60, 4\]"),
        (OneRow, r"must return a float tensor \[60, 3\].*got shape \[1, 3\]"),
        (Classes, r"got torch\.int64; return logits"),
        (Booleans, r"got torch\.bool; return logits as torch\.float32"),
        (TwoResults, "got a tuple"),
        (NotANumber, "got NaN or infinity in 60 of 60 rows"),
        (NoParameters, "no gradient reaches any of its parameters"),
        (Detached, "no gradient reaches any of its parameters"),
        (CachedLayer, "layer first has cached=True.*set cached=False"),
        (KeepsGraph, "keeps state between calls"),
        (KeepsGraphOfEachSize, "keeps state between calls"),
        (OneGraphOnly, r"keeps state between calls.*\n?.*after another graph it fails"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_invalid_model_is_an_error(make: Callable[[], nn.Module], said: str) -> None:
    """The message names the model and what is wrong."""
    with pytest.raises(ModelError, match=said) as caught:
        build(make())
    assert str(caught.value).startswith("model mypkg:build")


def test_a_model_that_raises_shows_the_users_frames_once() -> None:
    """The message contains neither torch's frames nor ours."""
    with pytest.raises(ModelError) as caught:
        build(Raises())
    text = str(caught.value)
    assert text.count("RuntimeError: ") == 1
    assert "torch/nn" not in text
    assert "grb_check/" not in text


def test_a_random_forward_is_named() -> None:
    """Monte-Carlo dropout in evaluation mode is a warning, not an error about kept state."""

    class Noisy(EdgeIndex):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x, edge_index) + 0.1 * torch.rand(x.shape[0], 3)

    with pytest.warns(RandomForwardWarning, match="mypkg:build is random in evaluation mode"):
        build(Noisy())


def test_probabilities_are_turned_into_logits() -> None:
    """The logarithm is that of the logits up to a constant of each row, and so are gradients."""
    torch.manual_seed(0)
    plain = EdgeIndex().eval()

    class Probabilities(EdgeIndex):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x, edge_index).softmax(dim=1)

    soft = Probabilities().eval()
    soft.load_state_dict(plain.state_dict())
    with pytest.warns(ProbabilitiesWarning, match="mypkg:build is a probability"):
        victim = build(Trained(soft))
    expected = build(Trained(plain))
    x = GRAPH.x.clone().requires_grad_()
    logits = [model(x, GRAPH.edge_index).log_softmax(dim=1) for model in (victim, expected)]
    assert torch.allclose(*logits, atol=1e-5)
    gradients = [torch.autograd.grad(output[:, 0].sum(), x)[0] for output in logits]
    assert torch.allclose(*gradients, atol=1e-5)


def test_a_finished_model_that_ignores_edges_is_named() -> None:
    """An MLP, or a cached graph."""

    class Mlp(Base):
        def forward(self, x: Tensor) -> Tensor:
            return self.own(x)

    with pytest.warns(StructureIgnoredWarning, match="build"):
        build(Trained(Mlp().eval()))
    model = KeepsGraph().eval()
    view = GRAPH.edge_index[:, (GRAPH.edge_index < 60).all(dim=0)]
    model(GRAPH.x[:60], view)
    with pytest.warns(StructureIgnoredWarning):
        build(Trained(model))


def test_a_model_that_cannot_be_copied_is_still_used() -> None:
    """It is used itself, and a warning says that one check was skipped."""
    module = EdgeIndex().eval()
    module.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.warns(StateUncheckedWarning, match="cannot be copied"):
        victim = build(Trained(module))
    assert victim.module is module
