"""Edge weights for modules of any kind: those that pass the trial, and those that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from small_graphs import community_dataset
from strategies import undirected
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import degree

from grb_check.gradients import edge_weights
from grb_check.gradients.edge_weights import first_valid_weighting
from grb_check.gradients.pair_graph import pair_graph
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.probed import Probed

Make = Callable[[], nn.Module]
GRAPH = community_dataset().graph
NUM_NODES = 120


class Summed(nn.Module):
    """Two rounds of a neighbourhood mean or of a product with a matrix; subclasses add forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def rounds(self, x: Tensor, propagate: Callable[[Tensor], Tensor]) -> Tensor:
        h = torch.tanh(self.first(x) + propagate(x) / 4)
        return self.last(h + propagate(h) / 4)

    def by_edges(self, x: Tensor, edges: Tensor, weight: Tensor | None = None) -> Tensor:
        scale = x.new_ones(edges.shape[1]) if weight is None else weight
        return self.rounds(
            x, lambda h: torch.zeros_like(h).index_add(0, edges[1], h[edges[0]] * scale[:, None])
        )


class OptionalWeight(Summed):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.by_edges(x, edge_index, edge_weight)


class WeightAndBatch(Summed):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, batch: Tensor) -> Tensor:
        return self.by_edges(x + 0 * batch[:, None], edge_index, edge_weight)


class DataWithWeight(Summed):
    def forward(self, data: Data) -> Tensor:
        return self.by_edges(data.x, data.edge_index, data.edge_weight)


class DataWithLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = pyg.GATConv(8, 8), pyg.SAGEConv(8, 3)

    def forward(self, data: Data) -> Tensor:
        return self.last(torch.tanh(self.first(data.x, data.edge_index)), data.edge_index)


class AdjT(Summed):
    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        return self.rounds(x, lambda h: adj_t @ h)


class LayerAndOwnMatrix(nn.Module):
    """A layer of PyG, and a product with a matrix that the module makes from its edges."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pyg.SAGEConv(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        size, ones = (x.shape[0], x.shape[0]), x.new_ones(edge_index.shape[1])
        matrix = torch.sparse_coo_tensor(edge_index.flip(0), ones, size, check_invariants=False)
        return torch.sparse.mm(matrix, self.layer(x, edge_index))


class AdjTWithLayers(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x, adj_t))
        return x


class Adj(Summed):
    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return self.rounds(x, lambda h: torch.sparse.mm(adj, h))


class AdjWithLayers(AdjTWithLayers):
    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return super().forward(x, adj)


class CooOnly(Summed):
    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        assert adj.layout == torch.sparse_coo
        return self.rounds(x, lambda h: torch.sparse.mm(adj, h))


class MadeDense(Summed):
    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        dense = adj.to_dense()
        degrees = (dense.sum(1) + 1).rsqrt()
        return self.rounds(x, lambda h: degrees[:, None] * (dense @ (degrees[:, None] * h)))


class Normalised(Adj):
    def __init__(self, normalise: Callable[[sp.csr_matrix], object]) -> None:
        super().__init__()
        self.adj_norm_func = normalise


class DenseNormalised(Normalised):
    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        assert adj.layout == torch.strided
        return self.rounds(x, lambda h: adj @ h)


class TwoAdjacencies(Normalised):
    def forward(self, x: Tensor, adj: tuple[Tensor, Tensor]) -> Tensor:
        return self.rounds(x, lambda h: torch.sparse.mm(adj[0], h) + torch.sparse.mm(adj[1], h))


class DeafToWeight(Summed):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.by_edges(x, edge_index)


class CountsEdges(Summed):
    """Its degrees count edges, whatever their weights."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        degrees = degree(edge_index[1], x.shape[0])[:, None] + 1
        return self.by_edges(x, edge_index, edge_weight) / degrees


class WithoutGradient(Summed):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.by_edges(x, edge_index, None if edge_weight is None else edge_weight.detach())


class ThresholdOnWeight(Summed):
    """The values are right, but the gradient is 0 everywhere."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        weight = edge_weight
        if weight is not None:
            weight = (weight > 0.5).to(x.dtype) + 0 * weight
        return self.by_edges(x, edge_index, weight)


class LooksAtEdges(nn.Module):
    """A layer, and a statistic of the edges outside it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pyg.GINConv(nn.Linear(8, 3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index) + degree(edge_index[0], x.shape[0])[:, None]


class PlainEdges(Summed):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.by_edges(x, edge_index)


def grb_gcn(adjacency: sp.csr_matrix, left: float = -0.5, right: float = -0.5) -> sp.csr_matrix:
    """The same as GRB's GCNAdjNorm."""
    adjacency = sp.eye(adjacency.shape[0]) + adjacency
    sums = np.asarray(adjacency.sum(1)).ravel()
    return sp.diags(sums**left) @ adjacency @ sp.diags(sums**right)


def without_loops(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    sums = np.asarray(adjacency.sum(1)).ravel()
    return sp.diags(np.where(sums > 0, sums, 1.0) ** -1.0) @ adjacency


def dense_gcn(adjacency: sp.csr_matrix) -> Tensor:
    return torch.from_numpy(grb_gcn(adjacency).toarray()).float()


def probed(encoder: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return Probed(_adapter(encoder.eval()), torch.randn(3, 3), torch.zeros(3))


WEIGHTINGS: dict[str, tuple[Make, str]] = {
    "optional weight": (OptionalWeight, "_by_argument"),
    "weight and batch": (WeightAndBatch, "_by_argument"),
    "data with weight": (DataWithWeight, "_by_argument"),
    "data with layers": (DataWithLayers, "_by_reductions_and_products"),
    "PyG's GCN": (lambda: pyg.models.GCN(8, 8, 2, 3), "_by_products"),
    "TAG": (lambda: pyg.TAGConv(8, 3), "_by_products"),
    "PyG's GAT": (lambda: pyg.models.GAT(8, 8, 2, 3), "_by_reductions"),
    "PyG's GIN": (lambda: pyg.models.GIN(8, 8, 2, 3), "_by_reductions_and_products"),
    "PyG's GraphSAGE": (lambda: pyg.models.GraphSAGE(8, 8, 2, 3), "_by_reductions_and_products"),
    "weights in a mean": (lambda: pyg.GraphConv(8, 3, aggr="mean"), "_by_reductions_and_products"),
    "adj_t": (AdjT, "_by_csr_matrix"),
    "adj_t, GCN": (
        lambda: AdjTWithLayers(pyg.GCNConv(8, 8), pyg.GCNConv(8, 3)),
        "_by_csr_matrix",
    ),
    "adj_t, SAGE and GAT": (
        lambda: AdjTWithLayers(pyg.SAGEConv(8, 8), pyg.GATConv(8, 3)),
        "_by_reductions_and_products",
    ),
    "layer and own matrix": (LayerAndOwnMatrix, "_by_reductions_and_matrices"),
    "adj": (Adj, "_by_csr_matrix"),
    "adj, layers": (lambda: AdjWithLayers(pyg.GCNConv(8, 8), pyg.GINConv(nn.Linear(8, 3))), ""),
    "adj, COO only": (CooOnly, "_by_own_matrix"),
    "adj, made dense": (MadeDense, "_by_csr_matrix"),
    "GRB's GCN": (lambda: Normalised(grb_gcn), "_by_csr_matrix"),
    "GRB's SAGE": (lambda: Normalised(lambda a: grb_gcn(a, -1, 0)), "_by_csr_matrix"),
    "without loops": (lambda: Normalised(without_loops), "_by_csr_matrix"),
    "halved": (lambda: Normalised(lambda a: a / 2), "_by_csr_matrix"),
    "GRB's RobustGCN": (
        lambda: TwoAdjacencies(lambda a: (grb_gcn(a), grb_gcn(a, -1, -1))),
        "_by_csr_matrix",
    ),
    "dense": (lambda: DenseNormalised(dense_gcn), "_by_own_matrix"),
    "no weights": (PlainEdges, "_by_reductions"),
    "deaf to weights": (DeafToWeight, "_by_reductions"),
    "degrees that count edges": (CountsEdges, "_by_reductions"),
    "detached weights": (WithoutGradient, "_by_reductions"),
    "a threshold on weights": (ThresholdOnWeight, "_by_reductions"),
    "degrees beside a layer": (LooksAtEdges, "_by_reductions_and_products"),
    "std": (lambda: pyg.SAGEConv(8, 3, aggr="std"), "_by_reductions"),
    "several": (lambda: pyg.SAGEConv(8, 3, aggr=["mean", "max"]), "_by_reductions"),
    "ClusterGCN": (lambda: pyg.ClusterGCNConv(8, 3), "_by_reductions_and_products"),
    "encoder of layers": (lambda: probed(pyg.GINConv(nn.Linear(8, 3))), "weighting"),
    "encoder of adj": (lambda: probed(Adj()), "weighting"),
}


def _adapter(module: nn.Module) -> Adapter:
    return Adapter(module, "m", detect_convention(module, "forward", "m"))


def _victim(make: Make) -> Victim:
    torch.manual_seed(0)
    return Victim(_adapter(make().eval().requires_grad_(False)), 3)


def _pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every third edge, a new neighbour for each of 80 nodes, and one for the isolated node 0."""
    forth = edge_index[:, edge_index[0] < edge_index[1]][:, ::3]
    others = torch.stack([torch.arange(1, 41), torch.arange(41, 81)])
    new = torch.cat([others, torch.tensor([[0], [num_nodes - 1]])], dim=1)
    known = undirected(Data(edge_index=edge_index))
    is_new = [pair not in known for pair in zip(*new.tolist(), strict=True)]
    return torch.cat([forth, new[:, torch.tensor(is_new)]], dim=1)


PAIRS = _pairs(GRAPH.edge_index, NUM_NODES)


@pytest.mark.parametrize(("make", "expected"), WEIGHTINGS.values(), ids=WEIGHTINGS)
def test_every_weighting(make: Make, expected: str) -> None:
    """Logits equal those of the real graph, gradients finite differences, for some targets."""
    victim = _victim(make)
    weighting = first_valid_weighting(victim.adapter, GRAPH.x, GRAPH.edge_index, PAIRS)
    assert weighting is not None
    assert expected in ("", weighting.__name__)
    targets = torch.tensor([3, 0, 50, 40])
    logits_of = victim.with_pairs(GRAPH.x, GRAPH.edge_index, PAIRS, targets)
    assert logits_of is not None
    graph = pair_graph(GRAPH.edge_index, PAIRS, NUM_NODES)
    torch.manual_seed(1)
    for chosen in (graph.present, torch.rand(PAIRS.shape[1]) < 0.5):
        real = victim(GRAPH.x, graph.real_edges(chosen))[targets]
        torch.testing.assert_close(logits_of(chosen.float()), real, rtol=1e-4, atol=1e-5)
    weights = (0.2 + 0.6 * torch.rand(PAIRS.shape[1])).requires_grad_()
    direction, signs = torch.rand(weights.shape), torch.randn(4, 3)
    (gradient,) = torch.autograd.grad((logits_of(weights) * signs).sum(), weights)
    with torch.no_grad():
        there, back = (logits_of(weights + step * direction) for step in (0.002, -0.002))
    difference = ((there - back) * signs).sum() / 0.004
    torch.testing.assert_close((gradient * direction).sum(), difference, rtol=0.01, atol=5e-3)


class AddsANode(nn.Module):
    """Adds a node that is linked to all others."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pyg.GINConv(nn.Linear(8, 3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hub = torch.arange(x.shape[0])
        ties = torch.stack([hub, torch.full_like(hub, x.shape[0])])
        edges = torch.cat([edge_index, ties, ties.flip(0)], dim=1)
        return self.layer(torch.cat([x, x[:1]]), edges)[:-1]


class OfNumpy(Summed):
    """Its matrix is made where no operation is seen."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        matrix = np.zeros((len(x), len(x)), dtype=np.float32)
        matrix[tuple(edge_index.numpy())] = 1.0
        return self.rounds(x, lambda h: torch.from_numpy(matrix) @ h)


class Mlp(Summed):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x))


NONE: dict[str, Make] = {
    "no graph": Mlp,
    "another node": AddsANode,
    "numbers of another library": OfNumpy,
    "squared": lambda: Normalised(lambda a: a @ a),
    "truncated": lambda: Normalised(lambda a: sp.tril(a)),
}


@pytest.mark.parametrize("make", NONE.values(), ids=NONE)
def test_a_model_that_does_not_allow_it_has_no_map(make: Make) -> None:
    """The values would be wrong, or there is no gradient."""
    victim = _victim(make)
    targets = torch.arange(5)
    assert victim.with_pairs(GRAPH.x, GRAPH.edge_index, PAIRS, targets) is None


def test_dense_matrices_are_made_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a product with a COO matrix takes an N x N array."""
    targets = torch.arange(3)
    sizes = []
    for most in (NUM_NODES, NUM_NODES - 1):
        monkeypatch.setattr(edge_weights, "MOST_DENSE_NODES", most)
        for make in (CooOnly, Adj):
            logits_of = _victim(make).with_pairs(GRAPH.x, GRAPH.edge_index, PAIRS, targets)
            sizes.append(logits_of is not None)
    assert sizes == [True, True, False, True]
