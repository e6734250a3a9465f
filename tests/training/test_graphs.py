"""Models of graphs whose edges have attributes, on attacked graphs too."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset, set_of_graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv, global_add_pool

from grb_check.attacks.budgets import threat_of
from grb_check.attacks.graph_sets.graph_list import graph_list
from grb_check.datasets.given_edges import EdgeAttribute, given_edges
from grb_check.datasets.graph_dataset import GraphDataset, GraphSet, graph_dataset
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim
from grb_check.victims.probed import Probed
from grb_check.victims.wrappers import Encoder

CPU = torch.device("cpu")


class Gine(nn.Module):
    """Messages depend on the attributes of edges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = GINEConv(nn.Linear(3, 16), edge_dim=width)
        self.last = nn.Linear(16, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        hidden = self.layer(x, edge_index, edge_attr).relu()
        logits: Tensor = self.last(global_add_pool(hidden, batch))
        return logits


class Optional(Gine):
    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        assert edge_attr is not None
        assert batch is not None
        return super().forward(x, edge_index, edge_attr, batch)


class OfData(Gine):
    def forward(self, data: Data) -> Tensor:  # type: ignore[override]
        return super().forward(data.x, data.edge_index, data.edge_attr, data.batch)


def with_attributes() -> GraphDataset:
    """Rings and stars; the attribute of an edge is the mean of the numbers of its ends."""
    graph_set: GraphSet = set_of_graphs()
    edges = graph_set.graphs.edge_index
    values: dict[EdgeAttribute, Tensor] = {"edge_attr": attribute(edges)}
    given = given_edges(edges, values, len(graph_set.graphs.x))
    return graph_dataset(replace(graph_set, given_edges=given))


def attribute(edges: Tensor) -> Tensor:
    return edges.float().mean(dim=0)[:, None] % 2


DATASET = with_attributes()
EDGE_ATTR = attribute(DATASET.graph.nodes[DATASET.graph.edge_index])


def victim_of(model: object) -> Victim:
    return build_victim(model, DATASET, name="m", seed=0, device=CPU)


@pytest.mark.slow
@pytest.mark.parametrize("made", [Gine, Optional, OfData])
def test_a_model_gets_the_attributes_of_the_present_edges(made: type[Gine]) -> None:
    """For training, and of the test graphs with flips too."""
    victim = victim_of(made(1))
    graph, given = DATASET.graph, DATASET.given_edges
    assert given is not None
    absent = given.attributes["edge_attr"][-1]
    plain = Gine.forward
    expected = plain(victim.module, graph.x, graph.edge_index, EDGE_ATTR, graph.batch)  # type: ignore[arg-type]
    torch.testing.assert_close(victim(graph.x, graph.edge_index), expected)
    left = graph.edge_index[:, 2:]
    new = torch.tensor([[0, 2], [2, 0]])
    assert not (left[:, None] == new[:, :1, None]).all(dim=0).any()
    attacked = torch.cat([left, new], dim=1)
    values = torch.cat([EDGE_ATTR[2:], absent.expand(2, 1)])
    expected = plain(victim.module, graph.x, attacked, values, graph.batch)  # type: ignore[arg-type]
    torch.testing.assert_close(victim(graph.x, attacked), expected)


@pytest.mark.slow
def test_copies_of_graphs_in_a_search_keep_their_attributes() -> None:
    """The logits of copies in another order are those of the graphs."""
    victim = victim_of(Gine(1))
    graph = DATASET.graph
    threat = threat_of(DATASET, "full", "modification", "grbcd")
    graphs = graph_list(graph, threat, victim)
    owners = torch.tensor([3, 1, 1, 20, 0])
    copies = graphs.copies(owners)
    clean = victim(graph.x, graph.edge_index)
    torch.testing.assert_close(copies.model(copies.x, copies.edge_index), clean[owners])


@pytest.mark.slow
def test_weights_of_pairs_have_gradients_through_layers_with_attributes() -> None:
    """Weights in reductions; a weight of 1 on the edges gives the clean logits."""
    victim = victim_of(Gine(1))
    graph = DATASET.graph
    forth = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    targets = torch.arange(DATASET.num_graphs)
    weighted = victim.with_pairs(graph.x, graph.edge_index, forth, targets)
    assert weighted is not None
    weights = torch.ones(forth.shape[1], requires_grad=True)
    logits = weighted(weights)
    torch.testing.assert_close(logits, victim(graph.x, graph.edge_index))
    logits[:, 0].sum().backward()  # type: ignore[no-untyped-call]
    assert weights.grad is not None
    assert weights.grad.any()


def test_a_model_that_needs_attributes_is_refused_where_there_are_none() -> None:
    """Before it is called."""
    for other in (graph_dataset(set_of_graphs()), community_dataset()):
        with pytest.raises(
            ModelError, match=r"requires edge_attr, but dataset .* has no edge_attr"
        ):
            build_victim(Gine(1), other, name="m", seed=0, device=CPU)


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
def test_an_encoder_gets_the_attributes_too() -> None:
    """Of the present edges, and of copies of graphs in another order."""
    encoder = Gine(1)
    encoder.eval()
    victim = victim_of(Encoder(encoder))
    graph = DATASET.graph
    clean = victim(graph.x, graph.edge_index)
    embedded = encoder(graph.x, graph.edge_index, EDGE_ATTR, graph.batch)
    assert isinstance(victim.module, Probed)
    torch.testing.assert_close(clean, victim.module.linear(embedded))
    owners = torch.tensor([3, 1, 1, 20, 0])
    threat = threat_of(DATASET, "full", "modification", "grbcd")
    copies = graph_list(graph, threat, victim).copies(owners)
    torch.testing.assert_close(copies.model(copies.x, copies.edge_index), clean[owners])
