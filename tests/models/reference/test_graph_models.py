"""The models for sets of graphs: independence of graphs, and edge weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from sets_of_graphs import graph_batches, rings_and_triangles
from torch import Tensor, nn
from torch_geometric.data import Batch

from grb_check.models.graph_training import classifier_fit
from grb_check.models.published import GraphSettings
from grb_check.models.reference.graph_gcn import GraphGCN
from grb_check.models.reference.graph_gin import GINStack, GraphGIN

SMALL: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: GraphGCN(3, 2, width=5, layers=3),
    "GIN": lambda: GraphGIN(3, 2, width=5, layers=3),
    "encoder": lambda: GINStack(3, width=4, layers=2, dropout=0.5),
}
BROAD: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: GraphGCN(3, 2, width=32, layers=2),
    "GIN": lambda: GraphGIN(3, 2, width=32, layers=2),
}


def small(kind: str) -> nn.Module:
    """With batch statistics from some data, so that normalisation is not the identity."""
    torch.manual_seed(1)
    module = SMALL[kind]()
    data = rings_and_triangles(6)
    module(data.x, data.edge_index, data.batch)
    return module.eval()


@pytest.mark.parametrize("kind", SMALL)
@settings(deadline=None, max_examples=8)
@given(data=graph_batches())
def test_a_graph_has_the_same_output_alone(kind: str, data: Batch) -> None:
    """As in a union with others; also single nodes and graphs without edges."""
    module = small(kind)
    together = module(data.x, data.edge_index, data.batch)
    for number, graph in enumerate(data.to_data_list()):
        alone = module(graph.x, graph.edge_index, torch.zeros(len(graph.x), dtype=torch.int64))
        torch.testing.assert_close(alone, together[number : number + 1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", BROAD)
def test_a_classifier_learns_triangles(kind: str) -> None:
    """Features carry no information; at least 9 of 10 unseen graphs are classified correctly."""
    torch.manual_seed(0)
    module = BROAD[kind]()
    row = GraphSettings(lr=0.02, epochs=12, layers=2, width=32, batch_size=16)
    classifier_fit(module, row)(rings_and_triangles(64), rings_and_triangles(32, seed=1))
    unseen = rings_and_triangles(64, seed=2)
    with torch.no_grad():
        logits: Tensor = module(unseen.x, unseen.edge_index, unseen.batch)
    assert float((logits.argmax(dim=1) == unseen.y).float().mean()) >= 0.9
