"""Every change of each graph of a set, against the model called on every such set."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from graph_unions import PooledGat, PooledGcn, Unweighted, threat_to, union_of, unions, victim_on
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

from grb_check.attacks.graph_sets import proofs
from grb_check.attacks.graph_sets.attacks import verdicts
from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Threat, apply
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim

TRIANGLE = [(0, 1), (0, 2), (1, 2)]


class Centred(nn.Module):
    """Moves the graphs that it is given to a mean of 0, so that each changes all others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = PooledGat()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        pooled = self.inner(x, edge_index, batch)
        return pooled - pooled.mean(0)


class Features(nn.Module):
    """Sums features, whatever the edges."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.linear(global_add_pool(x.tanh(), batch))


def falling(model: Victim, graph: Data) -> Tensor:
    """Which graphs change their class under some flip of two of their nodes, bool [G]."""
    edges, predicted = edge_set(graph), model(graph.x, graph.edge_index).argmax(1)
    result = torch.zeros_like(predicted, dtype=torch.bool)
    for first, second in combinations(range(graph.num_nodes), 2):
        if graph.batch[first] == graph.batch[second]:
            code = edges.encode(torch.tensor([[first], [second]]))
            changed = model(graph.x, edges.flipped(code).edge_index()).argmax(1)
            result |= changed != predicted
    return result


@pytest.mark.parametrize("kind", [PooledGcn, PooledGat, Unweighted, Features])
@settings(max_examples=15)
@given(drawn=unions(max_graphs=3, max_nodes=6), seed=st.integers(0, 99))
def test_every_verdict_is_that_of_calling_the_model_for_each_flip(
    kind: type[nn.Module], drawn: tuple[Data, Threat], seed: int
) -> None:
    graph, threat = drawn[0], single(drawn[0], drawn[1].targets.tolist())
    model = victim_on(graph, kind, seed)
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    found = verdicts(ModificationAnyFlip(), graph, threat, model)
    verify(found.perturbation, graph, threat)
    expected = (right & falling(model, graph))[threat.targets].nonzero().squeeze(1)
    assert not found.undecided.numel()
    assert torch.equal(found.fallen, expected)
    attacked = apply(graph, found.perturbation)
    after = model(attacked.x, attacked.edge_index).argmax(1)
    lost = torch.zeros_like(right).index_fill(0, threat.targets[expected], True)
    assert torch.equal(after == graph.y, right & ~lost)


def test_graphs_that_change_each_others_answers_are_refused() -> None:
    graph, model = right_set(Centred)
    with pytest.raises(ModelError, match="depends on the other graphs"):
        verdicts(ModificationAnyFlip(), graph, single(graph), model)


def test_what_is_too_large_or_too_late_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = right_set(Features)
    monkeypatch.setattr(proofs, "MOST_WHOLE", 3)
    found = verdicts(ModificationAnyFlip(), graph, single(graph), model)
    assert found.undecided.tolist() == [1]
    assert found.notes == ("1 graph of more than 3 nodes not tried, undecided",)
    assert found.tried
    late = verdicts(ModificationAnyFlip(seconds=1e-9), graph, single(graph), model)
    assert late.undecided.tolist() == [0, 1]
    assert not late.tried


def right_set(kind: type[nn.Module]) -> tuple[Data, Victim]:
    """Two graphs, labelled as a model has it."""
    graph = union_of([3, 4], [TRIANGLE, TRIANGLE])
    model = victim_on(graph, kind)
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    return graph, model


def single(graph: Data, targets: list[int] | None = None) -> Threat:
    """One flip in each graph that has a pair of nodes."""
    sizes = torch.bincount(graph.batch)
    budgets = (sizes > 1).long()
    return threat_to(graph, budgets.tolist(), targets)


def test_how_far_the_search_is_is_told_by_the_pairs_of_each_graph() -> None:
    graph = union_of([3, 2, 3], [TRIANGLE, [(0, 1)], TRIANGLE])
    model = victim_on(graph)
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    told: list[float] = []
    verdicts(ModificationAnyFlip(), graph, threat_to(graph, [1] * 3), model, told.append)
    assert told == pytest.approx([0.0, 9 / 22, 13 / 22])
