"""Random numbers of edges and votes in modules whose edges have weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from small_graphs import community_dataset
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.utils import dropout_adj, dropout_edge

from grb_check.gradients.edge_weights import PairGraph, _by_reductions, pair_graph
from grb_check.gradients.straight_through import Draws, votes_with_gradients
from grb_check.gradients.victim import Victim
from grb_check.victims.conventions import Adapter, detect_convention

Drop = Callable[[Tensor, torch.Generator], Tensor]
GRAPH = community_dataset().graph
CLASSES = 3


def by_comparison(edges: Tensor, generator: torch.Generator) -> Tensor:
    return edges[:, torch.rand(edges.shape[1], generator=generator) >= 0.4]


def by_bernoulli(edges: Tensor, generator: torch.Generator) -> Tensor:
    kept = torch.bernoulli(torch.full((edges.shape[1],), 0.6), generator=generator)
    return edges[:, kept.bool()]


def row_by_row(edges: Tensor, generator: torch.Generator) -> Tensor:
    kept = torch.empty(edges.shape[1]).uniform_(generator=generator) < 0.6
    source, target = edges
    return torch.stack([source[kept], target[kept]])


def of_pyg(edges: Tensor, generator: torch.Generator) -> Tensor:
    return dropout_edge(edges, 0.4)[0]


def old_of_pyg(edges: Tensor, generator: torch.Generator) -> Tensor:
    return dropout_adj(edges, p=0.4)[0]


def in_both_directions(edges: Tensor, generator: torch.Generator) -> Tensor:
    return dropout_edge(edges, 0.4, force_undirected=True)[0]


DROPS: dict[str, Drop] = {
    "comparison": by_comparison,
    "bernoulli": by_bernoulli,
    "rows": row_by_row,
    "dropout_edge": of_pyg,
    "dropout_adj": old_of_pyg,
    "both directions": in_both_directions,
}
VOTES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda logits: logits.softmax(-1).mean(0),
    "argmax": lambda logits: functional.one_hot(logits.argmax(-1), CLASSES).float().mean(0),
    "max": lambda logits: functional.one_hot(logits.max(2)[1], CLASSES).sum(0) / 4,
    "mode": lambda logits: functional.one_hot(
        torch.stack([each.argmax(1) for each in logits]).mode(0).values, CLASSES
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
@pytest.mark.parametrize("drop", ["comparison", "dropout_edge"])
def test_a_vote_is_that_of_the_real_graph(drop: str, vote: str) -> None:
    """Each edge has the numbers that the module draws for it, and the weights have a gradient."""
    _, graph = graph_of_pairs()
    victim = model(drop, vote)
    forward = _by_reductions(victim.adapter, graph.edge_index, GRAPH.num_nodes)
    torch.manual_seed(3)
    for chosen in (graph.present, torch.rand(graph.present.shape) < 0.5):
        weights = chosen.float().requires_grad_()
        actual = forward(GRAPH.x, graph.weights(weights))
        real = victim.adapter(GRAPH.x, graph.real_edges(chosen))
        torch.testing.assert_close(actual.float(), real.float(), rtol=1e-5, atol=1e-6)
        (gradient,) = torch.autograd.grad((actual * torch.randn(CLASSES)).sum(), weights)
        assert torch.isfinite(gradient).all()
        assert gradient[~chosen].count_nonzero() > 10


@pytest.mark.parametrize("drop", DROPS)
def test_a_model_that_drops_edges_has_edge_gradients(drop: str) -> None:
    pairs, _ = graph_of_pairs()
    targets = torch.arange(20)
    assert model(drop).with_pairs(GRAPH.x, GRAPH.edge_index, pairs, targets) is not None


def test_an_edge_has_its_gradient_in_every_copy() -> None:
    """Also in those where it is dropped: that of a sum over neighbours is known."""
    torch.manual_seed(0)
    _, graph = graph_of_pairs()
    victim = victim_of(Vote(by_comparison, lambda logits: logits.sum(0), pyg.SimpleConv("sum")))
    forward = _by_reductions(victim.adapter, graph.edge_index, GRAPH.num_nodes)
    weights = graph.present.float().requires_grad_()
    slope = [torch.zeros(0)]

    def sums(logits: Tensor) -> Tensor:
        slope[0] = 1 - logits.detach() ** 2  # of tanh, in each copy
        return logits.sum(0)

    victim.module.vote = sums  # type: ignore[assignment]
    output = forward(GRAPH.x, graph.weights(weights))
    (gradient,) = torch.autograd.grad(output.sum(), weights)
    first, second = graph.edge_index[:, -weights.numel() :]
    of_ends = slope[0].sum(0)
    expected = (of_ends[first] * GRAPH.x[second]).sum(1) + (of_ends[second] * GRAPH.x[first]).sum(1)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("vote", ["mean", "argmax"])
def test_votes_have_the_gradient_of_all_pairs(vote: str) -> None:
    """It agrees with autograd on pairs, or there would be none."""
    victim = model("dropout_edge", vote)
    found = victim.pair_gradients(GRAPH.x, GRAPH.edge_index, torch.arange(30), torch.sum)
    assert found is not None
    assert found.inputs.shape[1] <= 4 * (8 + 8)


def test_present_edges_get_the_numbers_of_a_module_without_the_others() -> None:
    weights = torch.tensor([1.0, 0.0, 1.0, 0.2, 1.0])
    draws = Draws(weights)
    generator, alone = (torch.Generator().manual_seed(1) for _ in range(2))
    for _ in range(3):
        assert draws.changes(torch.rand, (5,))
        numbers = draws(torch.rand, (5,), {"generator": generator})
        assert torch.equal(numbers[weights > 0.5], torch.rand(3, generator=alone))
    assert not draws.changes(torch.rand, (4, 5))


def test_a_vote_keeps_its_value_and_has_the_gradient_of_probabilities() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 4.0, 0.0]], requires_grad=True)
    with votes_with_gradients():
        votes = functional.one_hot(logits.argmax(1), 3)
    assert votes.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    (gradient,) = torch.autograd.grad(votes[0, 0], logits)
    soft = (logits[0].detach() / 2).softmax(0)  # the differences are 2 and 4, their lower median 2
    expected = soft[0] * (torch.tensor([1.0, 0.0, 0.0]) - soft) / 2
    torch.testing.assert_close(gradient[0], expected)


def test_first_arguments_may_be_given_by_name() -> None:
    """As torch allows it."""
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 4.0, 0.0]], requires_grad=True)
    with votes_with_gradients():
        labels = torch.argmax(input=logits, dim=1)
        assert torch.max(input=logits, dim=1)[1].tolist() == labels.tolist()
        stacked = torch.stack(tensors=[labels, labels])
        votes = functional.one_hot(input=torch.mode(input=stacked, dim=0)[0], num_classes=3)
        assert torch.rand(size=(2,)).shape == (2,)
    assert votes.tolist() == [[1, 0, 0], [0, 1, 0]]
    with votes_with_gradients():
        votes = functional.one_hot(input=torch.argmax(input=logits, dim=1), num_classes=3)
    assert votes.requires_grad


def test_functions_in_modules_with_weighted_reductions_may_name_their_arguments() -> None:
    """Sparse matrices, counts and random numbers, too."""

    class Named(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            values = torch.ones(size=(edge_index.shape[1],))
            size = (len(x), len(x))
            matrix = torch.sparse_coo_tensor(indices=edge_index, values=values, size=size)
            degrees = torch.bincount(input=edge_index[0], minlength=len(x))
            h = functional.dropout(input=matrix @ x, p=0.0)
            return h / (1 + degrees[:, None])

    graph = graph_of_pairs()[1]
    victim = victim_of(Named())
    forward = _by_reductions(victim.adapter, graph.edge_index, GRAPH.num_nodes)
    weights = graph.present.float().requires_grad_()
    (gradient,) = torch.autograd.grad(forward(GRAPH.x, graph.weights(weights)).sum(), weights)
    assert gradient.any()
