"""Facts about logits under candidate flips: they are those of the model on the flipped graph."""

from __future__ import annotations

import pytest
import torch
from alternating import gcn_of, gin_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.nn import (
    APPNP,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    TAGConv,
    models,
)

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.protocol import FlipSets, FlipTrials
from grb_check.gradients import flip_deltas
from grb_check.gradients.flip_deltas import DeltaTrials
from grb_check.gradients.recorded_layers import FixedRows
from grb_check.gradients.victim import Victim


class Layered(nn.Module):
    """Two layers with what users put around them: a skip connection, a norm, dropout."""

    def __init__(self, first: nn.Module, second: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second, self.norm = first, second, norm or nn.Identity()
        self.skip = nn.Linear(3, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = nn.functional.dropout(x, training=self.training)
        h = self.norm(torch.relu(self.first(h, edge_index)))
        return self.second(h, edge_index) + self.skip(x) + x.sum(1, keepdim=True)


LINEAR = {
    "own GCN": lambda: gcn_of(3, (4, 5)),
    "own GIN": lambda: gin_of(3, (4,), eps=0.3),
    "PyG's GCN": lambda: models.GCN(3, 4, 2, 3, norm="batch_norm", dropout=0.5),
    "PyG's GraphSAGE": lambda: models.GraphSAGE(3, 4, 2, 3, jk="cat"),
    "PyG's GIN": lambda: models.GIN(3, 4, 2, 3),
    "GCNConv, GraphConv": lambda: Layered(GCNConv(3, 4), GraphConv(4, 3)),
    "SAGEConv, TAGConv": lambda: Layered(SAGEConv(3, 4), TAGConv(4, 3, K=2), nn.LayerNorm(4)),
    "GINConv, not normalised GCNConv": lambda: Layered(
        GINConv(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))),
        GCNConv(4, 3, normalize=False),
    ),
    "APPNP": lambda: Propagated(),
}


class Propagated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.propagation = nn.Linear(3, 3), APPNP(K=3, alpha=0.2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagation(self.linear(x), edge_index)


def made(make) -> Victim:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        return victim_of(make().eval().requires_grad_(False))


@st.composite
def searches(draw):
    """A graph, targets, and rounds of candidates of which the first is then made."""
    graph = draw(graphs().filter(lambda graph: graph.num_nodes > 1))
    graph.x = torch.randn((graph.num_nodes, 3), generator=torch.Generator().manual_seed(1))
    nodes = st.integers(0, graph.num_nodes - 1)
    targets = draw(st.lists(nodes, min_size=1, unique=True))
    pairs = st.tuples(nodes, nodes).filter(lambda pair: pair[0] < pair[1])
    candidate = st.lists(pairs, min_size=1, max_size=4, unique=True)
    rounds = draw(st.lists(st.lists(candidate, min_size=1, max_size=4), min_size=1, max_size=3))
    return graph, torch.tensor(targets), rounds


def flip_sets_of(candidates) -> FlipSets:
    owner = [number for number, pairs in enumerate(candidates) for _ in pairs]
    every = torch.tensor([pair for pairs in candidates for pair in pairs])
    return FlipSets(every.T.contiguous(), torch.tensor(owner), len(candidates))


def check(trials: FlipTrials, victim: Victim, graph, targets: Tensor, rounds) -> None:
    """Each candidate's logits are those of a forward pass on its graph, round after round."""
    edges = edge_set(graph)

    def expected(now: EdgeSet) -> Tensor:
        with torch.no_grad():
            return victim(graph.x, now.edge_index())[targets]

    for candidates in rounds:
        flip_sets = flip_sets_of(candidates)
        changed = trials.tried(flip_sets)
        assert torch.equal(changed.owner, changed.owner.sort().values)
        for number in range(flip_sets.count):
            in_graph = changed.owner == number
            assert changed.position[in_graph].unique().numel() == int(in_graph.sum())
            logits = trials.logits().index_copy(
                0, changed.position[in_graph], changed.logits[in_graph]
            )
            flipped = edges.flipped(edges.encode(flip_sets.pairs[:, flip_sets.owner == number]))
            torch.testing.assert_close(logits, expected(flipped), rtol=1e-4, atol=1e-4)
        first = flip_sets.pairs[:, flip_sets.owner == 0]
        before = trials.work
        trials.move(first)
        assert trials.work > before
        edges = edges.flipped(edges.encode(first))
        torch.testing.assert_close(trials.logits(), expected(edges), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
@given(searches())
@settings(deadline=None, max_examples=12)
def test_changed_rows_are_those_of_a_forward_pass(name, search) -> None:
    """For layers that propagate linearly, with whatever is row by row around them."""
    graph, targets, rounds = search
    victim = made(LINEAR[name])
    trials = victim.with_flips(graph.x, graph.edge_index, targets)
    assert isinstance(trials, DeltaTrials)
    check(trials, victim, graph, targets, rounds)


@given(searches())
@settings(deadline=None, max_examples=12)
def test_parts_and_refreshed_sums_are_the_same(search) -> None:
    """With hardly any memory, and with all sums computed anew after every second move."""
    graph, targets, rounds = search
    victim = made(LINEAR["own GCN"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flip_deltas, "MOST_ROWS", 2 * graph.num_nodes)
        patch.setattr(flip_deltas, "MOST_VALUES", 10)
        patch.setattr(flip_deltas, "REFRESHED", 2)
        trials = victim.with_flips(graph.x, graph.edge_index, targets)
        check(trials, victim, graph, targets, rounds)


def test_a_candidate_costs_the_rows_that_it_reaches() -> None:
    """On a long path a flip is a small part of a forward pass."""
    nodes = torch.arange(2000)
    path = torch.stack([nodes[:-1], nodes[1:]])
    x = torch.randn((2000, 3), generator=torch.Generator().manual_seed(0))
    trials = made(LINEAR["own GCN"]).with_flips(x, torch.cat([path, path.flip(0)], 1), nodes)
    before = trials.work
    trials.tried(flip_sets_of([[(3, 900)], [(5, 1000)]]))
    assert trials.work - before < 0.05


def test_products_of_computed_weights_are_not_kept() -> None:
    """A weight norm makes another tensor in each call; parameters have one product for all rows."""
    x, nodes = torch.randn(6, 3), torch.tensor([4, 1])
    weight = nn.Parameter(torch.randn(2, 3), requires_grad=False)
    maps: dict[int, tuple[Tensor, Tensor]] = {}
    with FixedRows(x, nodes, maps) as fixed:
        computed = nn.functional.linear(fixed.rows, 2 * weight)
        assert maps == {}
        linear = nn.functional.linear(fixed.rows, weight)
    assert len(maps) == 1
    torch.testing.assert_close(linear, x[nodes] @ weight.T)
    torch.testing.assert_close(computed, 2 * linear)
