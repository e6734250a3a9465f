"""Modules around PyG's layers: logits from the rows that change are those of the whole module."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from attacked_graphs import WIDTH, Attacked, adapter_of, attacked_graphs, community, compare
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import (
    APPNP,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    JumpingKnowledge,
    PairNorm,
    SAGEConv,
    TransformerConv,
)
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE, GraphUNet
from torch_geometric.utils import subgraph

from grb_check.gradients import injected_rows, layer_calls
from grb_check.gradients.injected_rows import RowForm, injected_row_logits, linked_row_logits
from grb_check.gradients.no_indices import NoIndices
from grb_check.victims.adapter import Adapter


def gin_conv(a: int, b: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)), train_eps=True)


# Each makes rows of width b; the first four have a plan of their own in both directions.
LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn": GCNConv,
    "gcn improved": lambda a, b: GCNConv(a, b, improved=True),
    "gin": gin_conv,
    "gin linear": lambda a, b: GINConv(nn.Linear(a, b)),
    "sage": SAGEConv,
    "sage sum": lambda a, b: SAGEConv(a, b, aggr="sum", normalize=True),
    "sage projected": lambda a, b: SAGEConv(a, b, project=True, root_weight=False),
    "gat": lambda a, b: GATConv(a, b, heads=3, concat=False),
    "gat heads": lambda a, b: GATConv(a, b // 2, heads=2),
    "gat no loops": lambda a, b: GATConv(a, b, add_self_loops=False),
    "gcn unnormalised": lambda a, b: GCNConv(a, b, normalize=False),
}
OTHERS: dict[str, Callable[[int, int], nn.Module]] = {
    "sage max": lambda a, b: SAGEConv(a, b, aggr="max"),
    "gat residual": lambda a, b: GATConv(a, b, residual=True),
    "gatv2": GATv2Conv,
    "graph": GraphConv,
    "transformer": TransformerConv,
}


class Around(nn.Module):
    """What users write around two or three layers."""

    def __init__(self, make: Callable[[int, int], nn.Module], style: str) -> None:
        super().__init__()
        self.style = style
        depth = 3 if style == "norms" else 2
        self.layers = nn.ModuleList(make(WIDTH if i == 0 else 8, 8) for i in range(depth))
        self.norm, self.batch_norm = nn.LayerNorm(8), nn.BatchNorm1d(8)
        self.batch_norm.running_mean = torch.randn(8) / 2
        self.jump = JumpingKnowledge("cat")
        self.first = nn.Linear(WIDTH, 8)
        self.last = nn.Linear(8 * depth if style == "jump" else 8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, 3]."""
        states = []
        h = x
        for layer in self.layers:
            before = self.first(x) if h is x else h
            h = F.dropout(layer(h, edge_index), 0.5, self.training)
            if self.style == "norms":
                h = self.batch_norm(self.norm(h).relu())
            h = h + before if self.style == "skip" else F.elu(h)
            states.append(h)
        return self.last(self.jump(states) if self.style == "jump" else h)


class Weighted(nn.Module):
    """Gives its layers weights of edges, made from the degrees."""

    def __init__(self, make: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.one, self.two = make(WIDTH, 8), make(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, 3]."""
        degrees = torch.bincount(edge_index[1], minlength=int(edge_index.max()) + 1)
        weights = 1 / (1 + degrees[edge_index[0]].to(x.dtype))
        h = self.one(x, edge_index, edge_weight=weights)
        return self.two(h.relu(), edge_index, weights)


class Pooled(nn.Module):
    """Propagates on the nodes of the highest scores alone, without the edges of others.

    Args:
        propagation: of rows of width 8, on the pooled nodes.
        around: whether a layer on all nodes comes first.
    """

    def __init__(self, propagation: nn.Module, *, around: bool) -> None:
        super().__init__()
        self.first = GCNConv(WIDTH, 8) if around else None
        self.linear = nn.Linear(WIDTH, 8)
        self.propagation = propagation
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, 3]."""
        h = self.linear(x) if self.first is None else self.first(x, edge_index)
        kept = h[:, 0].topk(h.shape[0] // 3).indices
        inner, _ = subgraph(kept, edge_index, relabel_nodes=True, num_nodes=h.shape[0])
        pooled = self.propagation(h[kept], inner)
        return self.last(h.index_add(0, kept.sort().values, pooled))


def check_against_whole(module: nn.Module, graph: Attacked, seed: int) -> None:
    """Compare logits and gradients, in float64."""
    num_nodes, count, edge_index, targets = graph
    adapter, generator = adapter_of(module), torch.Generator().manual_seed(seed)
    x, injected = (
        torch.randn(n, WIDTH, dtype=torch.float64, generator=generator) for n in (num_nodes, count)
    )
    logits_of = injected_row_logits(adapter, x, edge_index, count, targets, RowForm())
    assert logits_of is not None
    injected.requires_grad_()
    expected = adapter(torch.cat([x, injected]), edge_index)[targets]
    compare(logits_of(injected), expected, injected)


@settings(deadline=None, max_examples=60)
@given(
    graph=attacked_graphs(),
    layer=st.sampled_from([*LAYERS, *OTHERS]),
    style=st.sampled_from(["plain", "norms", "skip", "jump"]),
    seed=st.integers(0, 99),
)
def test_rows_that_change_are_enough(graph: Attacked, layer: str, style: str, seed: int) -> None:
    """For every kind of layer, and what users put around layers."""
    torch.manual_seed(seed)
    check_against_whole(Around((LAYERS | OTHERS)[layer], style), graph, seed)


@settings(deadline=None, max_examples=30)
@given(
    graph=attacked_graphs(),
    kind=st.sampled_from([GCN, GAT, GIN, GraphSAGE]),
    norm=st.sampled_from([None, "BatchNorm", "LayerNorm"]),
    jump=st.sampled_from([None, "cat", "max"]),
    seed=st.integers(0, 99),
)
def test_models_of_pyg(
    graph: Attacked, kind: type[nn.Module], norm: str | None, jump: str | None, seed: int
) -> None:
    """Of two layers, with any norm of rows and jumping knowledge."""
    torch.manual_seed(seed)
    arguments = {"norm": norm, "jk": jump}
    if norm == "LayerNorm":
        arguments["norm_kwargs"] = {"mode": "node"}
    check_against_whole(kind(WIDTH, 8, 2, 3, **arguments), graph, seed)


@settings(deadline=None, max_examples=20)
@given(graph=attacked_graphs(), layer=st.sampled_from([GCNConv, GraphConv]), seed=st.integers(0, 9))
def test_weights_of_edges_are_kept(
    graph: Attacked, layer: Callable[[int, int], nn.Module], seed: int
) -> None:
    """Those that a module gives its layers, by name or by position."""
    torch.manual_seed(seed)
    check_against_whole(Weighted(layer), graph, seed)


class _Centred(Around):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = super().forward(x, edge_index)
        return h - h.mean(0)


class _Propagating(Around):
    def __init__(self) -> None:
        super().__init__(GCNConv, "plain")
        self.more = APPNP(3, 0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.more(super().forward(x, edge_index), edge_index)


class _Pruned(Around):
    """Drops edges between rows that are not alike."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        alike = (x[edge_index[0]] * x[edge_index[1]]).sum(1) > 0
        return super().forward(x, edge_index[:, alike])


class _Random(Around):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(F.dropout(x, 0.5), edge_index)


class _RandomColumns(Around):
    """The same random numbers for all rows of a call."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x * (torch.rand(WIDTH) > 0.5), edge_index)


class _Overwriting(Around):
    """Its ReLU overwrites what a backward pass needs."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.layers[0](x, edge_index).exp()
        h += 1
        return self.last(self.layers[1](h, edge_index))


class _Normed(Around):
    def __init__(self) -> None:
        super().__init__(GCNConv, "plain")
        self.pair = PairNorm()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(self.pair(x), edge_index)


@pytest.mark.parametrize(
    "make",
    [
        lambda: _Centred(GCNConv, "plain"),
        _Propagating,
        lambda: _Pruned(GCNConv, "plain"),
        lambda: _Random(GCNConv, "plain"),
        lambda: _RandomColumns(GCNConv, "plain"),
        lambda: _Overwriting(GCNConv, "plain"),
        _Normed,
        lambda: nn.Sequential(nn.Linear(WIDTH, 3)),
    ],
    ids=[
        "mean over nodes",
        "many hops",
        "pruned",
        "random",
        "random columns",
        "no backward",
        "pair norm",
        "no layer",
    ],
)
def test_modules_whose_rows_depend_on_others_run_on_the_whole_graph(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means over all nodes, layers of several hops, edges chosen by features, and chance."""
    monkeypatch.setattr(injected_rows, "summed_logits", lambda *_: None)  # which is the whole, too
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    module = make()
    adapter = adapter_of(module)
    if isinstance(module, nn.Sequential):
        adapter = Adapter(nn.Sequential(module), "mine", adapter.convention)
        module.forward = lambda x, edge_index: module[0](x)
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    assert injected_row_logits(adapter, x, edge_index, count, targets, RowForm()) is None


class _Switching(Around):
    """Another graph for large features, which no trial has met."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = edge_index.flip(1) if float(x.detach().abs().max()) > 1e3 else edge_index
        return super().forward(x, edges)


def test_a_call_unlike_the_recorded_one_runs_on_the_whole_graph() -> None:
    """Whatever the module then does, its output counts."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    adapter = adapter_of(_Switching(SAGEConv, "plain"))
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    logits_of = injected_row_logits(adapter, x, edge_index, count, targets, RowForm())
    assert logits_of is not None
    large = torch.full((count, WIDTH), 2e3, dtype=torch.float64)
    whole = adapter(torch.cat([x, large]), edge_index)[targets]
    torch.testing.assert_close(logits_of(large), whole)


class _InPlace(Around):
    """Adds to what its layers were given."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x)
        h += self.layers[1](h, edge_index)
        return self.last(h)


@pytest.mark.parametrize("layer", [GCNConv, GATConv])
def test_features_that_a_module_changes_in_place_are_those_of_the_call(
    layer: Callable[[int, int], nn.Module],
) -> None:
    """Not those that it leaves."""
    torch.manual_seed(0)
    check_against_whole(_InPlace(layer, "plain"), community(), 0)


@pytest.mark.parametrize("kind", [GraphSAGE, GIN, GAT])
def test_models_of_pyg_use_no_node_ids_outside_layers(
    kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that they have their form on fewer rows on a GPU, too; imitated on this device."""
    monkeypatch.setattr(layer_calls, "NoIndices", lambda *, checked: NoIndices(checked=False))
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    adapter, known = adapter_of(kind(WIDTH, 4, 2, 3)), RowForm()
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    assert injected_row_logits(adapter, x, edge_index, count, targets, known) is not None
    assert known.number == 1  # on rows, as one hop after another


class _ByTriangles(Around):
    """Adds what comes over edges in triangles, which it finds by a dense matrix."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        ones = torch.ones(edge_index.shape[1], dtype=x.dtype)
        size = (x.shape[0], x.shape[0])
        matrix = torch.sparse_coo_tensor(edge_index, ones, size).to_dense()
        return super().forward(x, edge_index) + ((matrix @ matrix) * matrix) @ self.last(
            self.first(x)
        )


def test_sparse_matrices_of_all_nodes_are_not_made_of_fewer_rows() -> None:
    """Torch does not check their entries: it writes beyond the memory of the smaller matrix."""
    torch.manual_seed(0)
    check_against_whole(_ByTriangles(SAGEConv, "plain"), community(), 0)


class _Loud(Around):
    """Uses node ids outside its layers, but only where features are large."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        loud = x.norm(dim=1) > 1e3
        if not loud.any():
            return super().forward(x, edge_index)
        return self.with_ids(x, edge_index, loud)

    def with_ids(self, x: Tensor, edge_index: Tensor, loud: Tensor) -> Tensor:
        return super().forward(x, edge_index[:, ~loud[edge_index[0]]])


class _LoudMatrix(_Loud):
    def with_ids(self, x: Tensor, edge_index: Tensor, loud: Tensor) -> Tensor:
        ones = torch.ones(edge_index.shape[1], dtype=x.dtype)
        matrix = torch.sparse_coo_tensor(edge_index, ones, (x.shape[0], x.shape[0]))
        return Around.forward(self, matrix @ x, edge_index)


@pytest.mark.parametrize("kind", [_Loud, _LoudMatrix])
def test_a_module_that_uses_ids_where_no_trial_saw_it_is_called_as_a_whole(
    kind: type[nn.Module],
) -> None:
    """On fewer rows it would fail, or read beyond the memory of a smaller matrix."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    adapter, known = adapter_of(kind(SAGEConv, "plain")), RowForm()
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    logits_of = injected_row_logits(adapter, x, edge_index, count, targets, known)
    assert logits_of is not None
    for new in (x[:count], 1e6 * x[:count]):
        whole = adapter.on_topology(edge_index, num_nodes + count)(torch.cat([x, new]))
        torch.testing.assert_close(logits_of(new), whole[targets])


def test_layers_are_as_they_were() -> None:
    """No layer keeps a replaced `forward` or a hook, even if the module raises."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    adapter = adapter_of(Around(GCNConv, "plain"))
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    logits_of = injected_row_logits(adapter, x, edge_index, count, targets, RowForm())
    assert logits_of is not None
    before = [sorted(vars(part)) for part in adapter.module.modules()]
    logits_of(x[:count])
    with pytest.raises(Exception, match="shape"):
        logits_of(x[:count, :2])
    assert all("forward" not in vars(part) for part in adapter.module.modules())
    assert before == [sorted(vars(part)) for part in adapter.module.modules()]
    first, second = (logits_of(x[:count]) for _ in range(2))
    assert torch.equal(first, second)


# Weights of links


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    layer=st.sampled_from([*LAYERS]),
    style=st.sampled_from(["plain", "norms", "skip", "jump"]),
    seed=st.integers(0, 99),
)
def test_links_of_weight_one_are_edges(
    data: st.DataObject, layer: str, style: str, seed: int
) -> None:
    """With weights of 0 and 1 logits and gradients are those of the module on that graph."""
    torch.manual_seed(seed)
    num_nodes, count, edge_index, targets = data.draw(attacked_graphs())
    edge_index = edge_index[:, (edge_index < num_nodes).all(dim=0)]
    node = st.integers(0, num_nodes - 1)
    candidates = torch.tensor(data.draw(st.lists(node, unique=True, min_size=1)))
    adapter = adapter_of(Around(LAYERS[layer], style))
    x, injected = (torch.randn(n, WIDTH, dtype=torch.float64) for n in (num_nodes, count))
    logits_of = linked_row_logits(adapter, x, edge_index, count, candidates, targets)
    assert logits_of is not None
    weights = (torch.rand(count, candidates.numel()) < 0.5).double()
    new, target_index = weights.nonzero().T
    links = torch.stack([new + num_nodes, candidates[target_index]])
    edges = torch.cat([edge_index, links, links.flip(0)], dim=1)
    injected.requires_grad_()
    expected = adapter(torch.cat([x, injected]), edges)[targets]
    compare(logits_of(injected, weights), expected, injected)


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_in_weights_are_differences(layer: str) -> None:
    """At weights between 0 and 1, against central differences."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community(12, 2)
    edge_index = edge_index[:, (edge_index < num_nodes).all(dim=0)]
    adapter = adapter_of(Around(LAYERS[layer], "plain"))
    x, injected = (torch.randn(n, WIDTH, dtype=torch.float64) for n in (num_nodes, count))
    candidates = torch.tensor([7, 2, 4])
    logits_of = linked_row_logits(adapter, x, edge_index, count, candidates, targets)
    assert logits_of is not None
    weights = (torch.rand(count, 3, dtype=torch.float64) / 2 + 0.25).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: logits_of(injected, given), (weights,))


@pytest.mark.parametrize("layer", OTHERS)
def test_other_layers_have_no_weights_of_links_here(layer: str) -> None:
    """They are left to weights of edges."""
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community(12, 2)
    edge_index = edge_index[:, (edge_index < num_nodes).all(dim=0)]
    adapter = adapter_of(Around(OTHERS[layer], "plain"))
    x = torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    assert linked_row_logits(adapter, x, edge_index, count, targets, targets) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: GraphUNet(WIDTH, 8, 3, depth=2),
        lambda: Pooled(GCNConv(8, 8), around=True),
        lambda: Pooled(GCNConv(8, 8), around=False),
        lambda: Pooled(APPNP(4, 0.1), around=False),
    ],
    ids=["unet", "layer", "only", "propagation"],
)
def test_layers_on_pooled_nodes_are_not_taken_for_rows_of_the_graph(
    make: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    num_nodes, count, edge_index, targets = community()
    adapter, x = adapter_of(make()), torch.randn(num_nodes, WIDTH, dtype=torch.float64)
    assert linked_row_logits(adapter, x, edge_index, count, torch.arange(9), targets) is None
    logits_of = injected_row_logits(adapter, x, edge_index, count, targets, RowForm())
    assert logits_of is not None
    injected = torch.randn(count, WIDTH, dtype=torch.float64)
    expected = adapter(torch.cat([x, injected]), edge_index)[targets]
    torch.testing.assert_close(logits_of(injected), expected)
