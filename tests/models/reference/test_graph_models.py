"""The models for sets of graphs: independence of graphs, and edge weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from sets_of_graphs import graph_batches, rings_and_triangles
from torch import Tensor, nn
from torch_geometric.data import Batch

from grb_check import models
from grb_check.gradients.message_masks import Edges, message_masks
from grb_check.models.contrastive.graph_views import edges_kept
from grb_check.models.graph_training import classifier_fit
from grb_check.models.published import GraphSettings
from grb_check.models.reference.graph_gcn import GraphGCN
from grb_check.models.reference.graph_gin import GINStack, GraphGIN
from grb_check.training.graph_batches import graphs_of
from grb_check.victims.wrappers import Encoder, SelfTrained

SMALL: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: GraphGCN(3, 2, width=5, layers=3),
    "GIN": lambda: GraphGIN(3, 2, width=5, layers=3),
    "encoder": lambda: GINStack(3, width=4, layers=2, dropout=0.5),
}
BROAD: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: GraphGCN(3, 2, width=32, layers=2),
    "GIN": lambda: GraphGIN(3, 2, width=32, layers=2),
}
FACTORIES = {
    "graph_gcn": (SelfTrained, 2, [128] * 4),
    "graph_gin": (SelfTrained, 2, [64] * 8),
    "infograph": (Encoder, 256, [32] * 8),
    "graph_graphcl": (Encoder, 512, [64] * 8),
    "adgcl": (Encoder, 160, [32] * 5),
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


@pytest.mark.parametrize("kind", SMALL)
@settings(deadline=None, max_examples=8)
@given(data=graph_batches())
def test_a_message_of_weight_zero_removes_the_edge(kind: str, data: Batch) -> None:
    """With the masks that attacks use; the weights have a gradient."""
    module = small(kind)
    torch.manual_seed(data.num_nodes)
    kept = edges_kept(graphs_of(data), 0.5)
    weights = kept.float().requires_grad_()
    with message_masks(module, Edges(data.edge_index, data.num_nodes), weights):
        weighted = module(data.x, data.edge_index, data.batch)
    without = module(data.x, data.edge_index[:, kept], data.batch)
    torch.testing.assert_close(weighted, without, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(weighted.square().sum(), weights)
    assert torch.isfinite(gradient).all()


def test_a_gcn_takes_weights_itself() -> None:
    """With the same result as masks."""
    module = small("GCN")
    data = rings_and_triangles(4)
    weights = torch.rand(data.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    with message_masks(module, Edges(data.edge_index, data.num_nodes), weights):
        masked = module(data.x, data.edge_index, data.batch)
    torch.testing.assert_close(module(data.x, data.edge_index, data.batch, weights), masked)


def test_embeddings_are_the_sums_of_all_layers_side_by_side() -> None:
    """Computed layer by layer, with explicit sums."""
    module = small("encoder")
    data = rings_and_triangles(3)
    h, columns = data.x, []
    for layer, norm in zip(module.layers, module.norms, strict=True):
        around = h.clone()
        for source, target in data.edge_index.t().tolist():
            around[target] += h[source]
        h = norm(layer.nn(around)).relu()
        columns.append(torch.stack([h[data.batch == number].sum(dim=0) for number in range(3)]))
    found = module(data.x, data.edge_index, data.batch)
    torch.testing.assert_close(found, torch.cat(columns, dim=1))


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_builds_the_row_of_its_table(name: str) -> None:
    """Layers, widths and shape of the output; nothing is cached."""
    kind, columns, widths = FACTORIES[name]
    built = getattr(models, name)(3, 2, "proteins")
    assert type(built) is kind
    data = rings_and_triangles(4)
    assert built.module(data.x, data.edge_index, data.batch).shape == (4, columns)
    stack = built.module.encoder if name == "graph_gin" else built.module
    sizes = [
        layer.out_channels if name == "graph_gcn" else layer.nn[-1].out_features
        for layer in stack.layers
    ]
    assert sizes == widths


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
