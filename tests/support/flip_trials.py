"""Rounds of candidate flips, and a comparison of their logits with calls of the model."""

from __future__ import annotations

import torch
from alternating import victim_of
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.protocol import FlipSets, FlipTrials
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


def checked_trials(victim: Victim, search) -> FlipTrials:
    """A model's trials, whose logits are those of forward passes on each graph, in all rounds."""
    graph, targets, rounds = search
    trials = victim.with_flips(graph.x, graph.edge_index, targets)
    assert trials is not None
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
    return trials
