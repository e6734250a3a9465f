"""GNNGuard equals a dense computation, and removes edges of dissimilar nodes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

from grb_check.errors import UsageError
from grb_check.models.defences.guard import Edges, Guard, Guarded
from grb_check.models.defences.guarded import GCNGuard, _GuardedAttention

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def dense_weights(guard: Guard, h: Tensor, adjacency: Tensor) -> Tensor:
    """Omega [N, N] of equations 3 to 7, its diagonal for the node itself."""
    size = h.shape[0]
    similarity = torch.zeros(size, size)
    for i in range(size):
        for j in range(size):
            cosine = F.cosine_similarity(h[i], h[j], dim=0, eps=1e-12)
            if adjacency[i, j] and cosine >= guard.threshold:
                similarity[i, j] = cosine
    count = (similarity > 0).sum(dim=1)
    total = similarity.sum(dim=1)
    alpha = torch.zeros(size, size)
    for i in range(size):
        if total[i] > 0:
            alpha[i] = similarity[i] / total[i] * count[i] / (count[i] + 1)
    score = torch.sigmoid(
        guard.gate.weight[0, 0] * alpha + guard.gate.weight[0, 1] * alpha.T + guard.gate.bias
    )
    alpha = torch.where((score >= 0.5) & (similarity > 0), alpha, 0.0)
    return alpha + torch.diag(1 / (count + 1))


def dense_gcn(model: GCNGuard, x: Tensor, edge_index: Tensor) -> Tensor:
    adjacency = torch.zeros(x.shape[0], x.shape[0], dtype=torch.bool)
    adjacency[edge_index[0], edge_index[1]] = True
    omega = None
    allowed = adjacency
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, nn.Linear)
        h = torch.relu(x) if number else x
        alpha = dense_weights(model.guard, h, allowed)
        off_diagonal = alpha - alpha.diag().diag()
        allowed = off_diagonal > 0
        if omega is None:
            omega = alpha
        else:
            memory = model.guard.memory
            stays = allowed.float() + torch.eye(x.shape[0])
            omega = memory * omega * stays + (1 - memory) * alpha
        x = omega @ h @ layer.weight.T + layer.bias
    return x


@settings(deadline=None, max_examples=40)
@given(
    graph=graphs(max_nodes=6),
    bias=st.sampled_from([0.0, -0.7, -2.0]),
    memory=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 99),
)
def test_equals_the_dense_formulas(graph: Data, bias: float, memory: float, seed: int) -> None:
    """With a gate that keeps all edges, removes some, and removes all."""
    torch.manual_seed(seed)
    model = GCNGuard(graph.num_features, 2, (4, 3), memory=memory).eval()
    model.guard.gate.bias.data.fill_(bias)
    expected = dense_gcn(model, graph.x, graph.edge_index)
    logits = model(graph.x, graph.edge_index)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_weights_of_a_node_add_up_to_one_before_the_gate(graph: Data, seed: int) -> None:
    """With its own; a node without a similar neighbour has only its own."""
    torch.manual_seed(seed)
    edges = Edges.of(graph.edge_index, graph.num_nodes)
    weights = Guard()(graph.x, edges, None, None)
    total = weights.loops.index_add(0, edges.target, weights.edges)
    torch.testing.assert_close(total, torch.ones(graph.num_nodes))
    assert not weights.edges[~weights.retained].any()


def test_guarded_attention_with_equal_weights_is_pygs() -> None:
    """The same parameters give GATConv's output; a common factor of the weights cancels."""
    torch.manual_seed(0)
    layer, theirs = _GuardedAttention(4, 3, 2), GATConv(4, 3, heads=2)
    theirs.lin.weight, theirs.att_src, theirs.att_dst, theirs.bias = (
        layer.lin.weight,
        layer.att_src,
        layer.att_dst,
        layer.bias,
    )
    edges, h = Edges.of(PATH, 4), torch.randn(4, 4)
    expected = theirs(h, PATH)
    for weight in (1.0, 0.3):
        weights = _weights(weight)
        torch.testing.assert_close(layer(h, edges, weights), expected)


def _weights(value: float) -> Guarded:
    mask = torch.ones(4, dtype=torch.bool)
    return Guarded(torch.full((4,), value), torch.full((4,), value), mask)


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.5, float("nan")])
def test_a_threshold_that_removes_nothing_or_all_is_refused(threshold: float) -> None:
    """Otherwise sums of similarities could be 0 or negative."""
    with pytest.raises(UsageError, match=f"threshold is {threshold}"):
        Guard(threshold=threshold)
