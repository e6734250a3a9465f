"""Modules that drop edges at random, or vote, and what they do on average."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from small_graphs import community_dataset
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.utils import dropout_adj, dropout_edge

from grb_check.gradients.averaging import averages, have_effect
from grb_check.gradients.pair_graph import PairGraph, pair_graph
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

Drop = Callable[[Tensor, torch.Generator], Tensor]
GRAPH = community_dataset().graph
CLASSES = 3


def by_comparison(edges: Tensor, generator: torch.Generator) -> Tensor:
    return edges[:, torch.rand(edges.shape[1], generator=generator) >= 0.4]


def by_bernoulli(edges: Tensor, generator: torch.Generator) -> Tensor:
    mask = torch.bernoulli(torch.full((edges.shape[1],), 0.6), generator=generator)
    return edges[:, mask.bool()]


def row_by_row(edges: Tensor, generator: torch.Generator) -> Tensor:
    mask = torch.empty(edges.shape[1]).uniform_(generator=generator) < 0.6
    source, target = edges
    return torch.stack([source[mask], target[mask]])


def of_pyg(edges: Tensor, generator: torch.Generator) -> Tensor:
    return dropout_edge(edges, 0.4)[0]


def old_of_pyg(edges: Tensor, generator: torch.Generator) -> Tensor:
    return dropout_adj(edges, p=0.4)[0]


def in_both_directions(edges: Tensor, generator: torch.Generator) -> Tensor:
    return dropout_edge(edges, 0.4, force_undirected=True)[0]


def opposite(edges: Tensor, generator: torch.Generator) -> Tensor:
    return edges[:, ~(torch.rand(edges.shape[1], generator=generator) < 0.6)]


def by_dropout(edges: Tensor, generator: torch.Generator) -> Tensor:
    return edges[:, functional.dropout(torch.ones(edges.shape[1], 1), 0.4)[:, 0] > 0]


DROPS: dict[str, Drop] = {
    "comparison": by_comparison,
    "bernoulli": by_bernoulli,
    "rows": row_by_row,
    "dropout_edge": of_pyg,
    "dropout_adj": old_of_pyg,
    "both directions": in_both_directions,
    "opposite": opposite,
    "dropout": by_dropout,
}
VOTES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda logits: logits.softmax(-1).mean(0),
    "argmax": lambda logits: functional.one_hot(logits.argmax(-1), CLASSES).float().mean(0),
    "max": lambda logits: functional.one_hot(logits.max(2)[1], CLASSES).sum(0) / 4,
    "mode": lambda logits: functional.one_hot(
        torch.stack([output.argmax(1) for output in logits]).mode(0).values, CLASSES
    ).float(),
}


class Vote(nn.Module):
    """Four copies of the graph without some edges answer, and their answers are joined."""

    def __init__(self, drop: Drop, vote: Callable[[Tensor], Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.drop, self.vote = drop, vote
        self.layers = nn.ModuleList(layers or (pyg.GCNConv(8, 8), pyg.SAGEConv(8, CLASSES)))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        answers = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for _ in range(4):
                edges, h = self.drop(edge_index, generator), x
                for layer in self.layers:
                    h = torch.tanh(layer(h, edges))
                answers.append(h)
        return self.vote(torch.stack(answers))


def victim_of(module: nn.Module) -> Victim:
    module = module.eval().requires_grad_(False)
    return Victim(Adapter(module, "m", detect_convention(module, "forward", "m")), CLASSES)


def model(drop: str = "comparison", vote: str = "mean", *layers: nn.Module) -> Victim:
    torch.manual_seed(0)
    return victim_of(Vote(DROPS[drop], VOTES[vote], *layers))


def graph_of_pairs() -> tuple[Tensor, PairGraph]:
    forth = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]][:, ::3]
    codes = GRAPH.edge_index[0] * GRAPH.num_nodes + GRAPH.edge_index[1]
    new = torch.stack([torch.arange(0, 40), torch.arange(70, 110)])
    new = new[:, ~torch.isin(new[0] * GRAPH.num_nodes + new[1], codes)]
    pairs = torch.cat([forth, new], dim=1)
    return pairs, pair_graph(GRAPH.edge_index, pairs, GRAPH.num_nodes)


@pytest.mark.parametrize("vote", VOTES)
@pytest.mark.parametrize("drop", DROPS)
def test_a_vote_has_the_edge_gradient_of_its_average(drop: str, vote: str) -> None:
    """Weights of 0 and 1 are the real graph; pairs that are not edges have a gradient, too."""
    pairs, graph = graph_of_pairs()
    victim = model(drop, vote)
    weighted = victim.with_pairs(GRAPH.x, GRAPH.edge_index, pairs, torch.arange(GRAPH.num_nodes))
    assert weighted is not None
    torch.manual_seed(3)
    for chosen in (graph.present, torch.rand(graph.present.shape) < 0.5):
        weights = chosen.float().requires_grad_()
        actual = weighted(weights)
        with averages():
            real = victim.adapter(GRAPH.x, graph.real_edges(chosen))
        torch.testing.assert_close(actual, real, rtol=1e-5, atol=1e-6)
        (gradient,) = torch.autograd.grad((actual * torch.randn(CLASSES)).sum(), weights)
        assert torch.isfinite(gradient).all()
        assert gradient[~chosen].count_nonzero() > 10


@pytest.mark.parametrize("vote", ["mean", "argmax"])
def test_votes_have_the_gradient_of_all_pairs(vote: str) -> None:
    """It agrees with autograd on pairs, or there would be none."""
    victim = model("dropout_edge", vote)
    gradients = victim.pair_gradients(GRAPH.x, GRAPH.edge_index, torch.arange(30), torch.sum)
    assert gradients is not None
    assert gradients.inputs.shape[1] <= 4 * (8 + 8)


@pytest.mark.parametrize("table", ["index", "embedding", "one_hot"])
def test_a_label_that_chooses_a_row_is_replaced_by_probabilities(table: str) -> None:
    logits, rows = torch.randn(5, 3, requires_grad=True), torch.randn(3, 2)
    with averages():
        label = logits.argmax(1)
        chosen = {
            "index": lambda: rows[label],
            "embedding": lambda: functional.embedding(label, rows),
            "one_hot": lambda: functional.one_hot(label, 3).float() @ rows,
        }[table]()
    assert torch.autograd.grad(chosen.sum(), logits)[0].any()
    assert chosen.shape == (5, 2)


def test_nothing_is_replaced_where_nobody_votes() -> None:
    mask = torch.ones(4, dtype=torch.bool)
    assert not have_effect(lambda: torch.relu(torch.randn(4))[mask].abs().softmax(0))
    assert have_effect(lambda: torch.eye(3)[torch.randn(4, 3).argmin(1)])
