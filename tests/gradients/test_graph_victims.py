"""Models that classify graphs: calling, training, probing and errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from small_graphs import set_of_graphs
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_add_pool, global_mean_pool
from torch_geometric.utils import unbatch, unbatch_edge_index

from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.wrappers import Encoder

DATASET = graph_dataset(set_of_graphs())
CPU = torch.device("cpu")


class Pooled(nn.Module):
    """Two convolutions and sum pooling."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.first, self.second = GCNConv(3, 16), GCNConv(16, 16)
        self.last = nn.Linear(16, outputs)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.last(global_add_pool(h, batch))


class OptionalBatch(Pooled):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:  # type: ignore[override]
        assert batch is not None
        return super().forward(x, edge_index, batch)


class OfData(Pooled):
    def forward(self, data: Data) -> Tensor:  # type: ignore[override]
        assert isinstance(data, Batch)
        logits = super().forward(data.x, data.edge_index, data.batch)
        assert logits.shape[0] == data.num_graphs
        return logits


class OfTransposed(Pooled):
    """Propagates with PyG's layers on a sparse tensor."""

    def forward(self, x: Tensor, adj_t: Tensor, batch: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, adj_t, batch)


class OfMatrix(nn.Module):
    """Products with the adjacency, as GRB's own models; the batch is optional."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor, adj: Tensor, batch: Tensor | None = None) -> Tensor:
        assert adj.is_sparse
        hidden = torch.sparse.mm(adj, self.first(x)).relu() + self.first(x)
        logits: Tensor = self.second(global_add_pool(torch.sparse.mm(adj, hidden), batch))
        return logits


class OneByOne(Pooled):
    """Splits the batch, which needs the edges of each graph to be contiguous."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        parts = zip(unbatch(x, batch), unbatch_edge_index(edge_index, batch), strict=True)
        return torch.cat([super(OneByOne, self).forward(*part, _zeros(part[0])) for part in parts])


def _zeros(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[0], dtype=torch.int64)


def _victim(built: object) -> Victim:
    return build_victim(built, DATASET, name="m", seed=0, device=CPU)


@pytest.mark.slow
@pytest.mark.parametrize("made", [Pooled, OptionalBatch, OfData, OneByOne, OfTransposed, OfMatrix])
def test_a_classifier_is_trained_and_answers_for_the_test_graphs(
    made: Callable[[], nn.Module],
) -> None:
    """One row per test graph, better than chance, the same for a graph alone."""
    with isolated_randomness(0):
        victim = _victim(made())
    logits = victim(DATASET.graph.x, DATASET.graph.edge_index)
    assert logits.shape == (DATASET.num_graphs, 2)
    assert float((logits.argmax(1) == DATASET.graph.y).float().mean()) > 0.7
    rows = DATASET.graph.batch == 0
    inside = DATASET.graph.edge_index[:, rows[DATASET.graph.edge_index[0]]]
    alone = victim.on_graphs(torch.zeros(int(rows.sum()), dtype=torch.int64))
    torch.testing.assert_close(alone(DATASET.graph.x[rows], inside), logits[:1])


@pytest.mark.parametrize("way", ["with_pairs", "pair_gradients"])
def test_weights_of_pairs_have_gradients(way: str) -> None:
    """Attacks differentiate through pooling, probe and encoder."""
    victim = _victim(Encoder(Pooled(outputs=8)))
    graph = DATASET.graph
    targets = torch.arange(DATASET.num_graphs)
    if way == "with_pairs":
        forth = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        logits_of = victim.with_pairs(graph.x, graph.edge_index, forth, targets)
        assert logits_of is not None
        ones = torch.ones(forth.shape[1], requires_grad=True)
        torch.testing.assert_close(logits_of(ones), victim(graph.x, graph.edge_index))
        (gradient,) = torch.autograd.grad(logits_of(ones).square().sum(), ones)
        assert int(gradient.count_nonzero()) > 0.9 * forth.shape[1]
        return
    gradients = victim.pair_gradients(
        graph.x, graph.edge_index, targets, lambda z: z.square().sum()
    )
    assert gradients is not None
    assert gradients.inputs.shape[0] == graph.x.shape[0]


def test_a_model_without_batch_is_refused() -> None:
    """It would return one row per node."""

    class OfNodes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = GCNConv(3, 2)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.layer(x, edge_index)

    with pytest.raises(ModelError, match=r"it must take \(x, edge_index, batch\)"):
        _victim(OfNodes())


def test_rows_for_nodes_are_refused() -> None:
    """Graphs are classified here."""

    class Unpooled(Pooled):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return self.last(self.first(x, edge_index))

    with pytest.raises(ModelError, match=r"a float tensor \[27, 2\], one row per graph"):
        _victim(Unpooled())


def test_embeddings_without_the_wrapper_are_refused_with_its_name() -> None:
    """A number of columns other than that of classes suggests an encoder."""

    class Wide(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return global_mean_pool(x, batch)

    with pytest.raises(ModelError, match=r"return grb_check\.Encoder\(module\)"):
        _victim(Wide())
