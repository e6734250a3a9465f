"""Facts about the search by answers: never weaker than its start, exact, within its limits."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from alternating import gcn_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, UnweightedModel, graph_of, graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT

from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.modification.shared import answer_search
from grb_check.attacks.modification.shared.answer_search import search_by_answers
from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.modification.shared.flip_sweeps import Question
from grb_check.attacks.modification.shared.whole_trials import WholeTrials
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Threat, apply
from grb_check.gradients.flip_deltas import DeltaTrials
from grb_check.gradients.victim import Victim

NONE = torch.empty(0, dtype=torch.int64)


@pytest.fixture(scope="module", autouse=True)
def flips_one_by_one():
    """On graphs as small as these a flip reaches most rows, and would not be tried alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer_search, "MOST_COST", float("inf"))
        yield


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gcn(num_features: int, num_classes: int) -> Victim:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return victim_of(gcn_of(num_features, (4,), num_classes=num_classes), num_classes)


def question_of(graph: Data, targets: Tensor, budget: int, model, *, isolate=True) -> Question:
    labels = right_classes(model, graph, targets)
    return Question(model, graph.x, edge_set(graph), targets, labels, budget, isolate)


def right_classes(model, graph: Data, targets: Tensor) -> Tensor:
    """The model's own classes: all targets are right at first."""
    with torch.no_grad():
        return model(graph.x, graph.edge_index).argmax(1)[targets]


def right(question: Question, flips: Tensor) -> int:
    with torch.no_grad():
        logits = question.model(question.x, question.clean.flipped(flips).edge_index())
    return int((logits[question.targets].argmax(1) == question.labels).sum())


def random_graph(num_nodes: int = 40, edges: int = 80) -> Data:
    ends = torch.randint(num_nodes, (edges, 2), generator=seeded()).tolist()
    chosen = sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]})
    return graph_of(num_nodes, chosen, x=torch.randn((num_nodes, 3), generator=seeded(1)))


@given(graphs(), st.integers(1, 5), st.integers(0, 2**16), st.booleans(), st.data())
@settings(deadline=None, max_examples=40)
def test_flips_are_distinct_within_the_budget_and_no_weaker(graph, budget, seed, isolate, data):
    """From any start, whatever the model; last edges stay if they must."""
    if graph.num_nodes < 2:
        return
    kind = data.draw(st.sampled_from([LinearModel, UnweightedModel, gcn]))
    question = question_of(
        graph,
        torch.arange(graph.num_nodes),
        budget,
        kind(graph.x.shape[1], int(graph.y.max()) + 1),
        isolate=isolate,
    )
    pairs = torch.tensor(list(combinations(range(graph.num_nodes), 2))).T
    additions = question.clean.encode(pairs)
    additions = additions[~question.clean.has(additions)]
    start = additions[torch.randperm(additions.numel(), generator=seeded(seed))[:budget]]
    flips = search_by_answers(question, start, 30, seeded(seed))
    assert flips.unique().numel() == flips.numel() <= budget
    assert right(question, flips) <= right(question, start)
    remaining = EdgeSet(
        question.clean.codes[~torch.isin(question.clean.codes, flips)], graph.num_nodes
    )
    if not isolate:
        assert (remaining.degrees() > 0)[question.clean.degrees() > 0].all()


def test_the_best_pair_of_flips_is_found() -> None:
    """Beside all pairs of flips, tried one by one."""
    graph = random_graph(8, 10)
    question = question_of(graph, torch.arange(8), 2, gcn(3, 3))
    every = question.clean.encode(torch.tensor(list(combinations(range(8), 2))).T)
    best = min(right(question, torch.stack(pair)) for pair in combinations(every, 2))
    flips = search_by_answers(question, NONE, 400, seeded())
    assert right(question, flips) == best < 8


@pytest.mark.parametrize("kind", [gcn, LinearModel])
def test_fast_and_slow_models_are_searched_alike(kind) -> None:
    """A model whose rows are computed and one that takes forward passes both lose targets."""
    graph = random_graph()
    question = question_of(graph, torch.arange(40), 8, kind(3, 3))
    assert right(question, search_by_answers(question, NONE, 1000, seeded())) < 32


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prbcd", "grbcd", "pgd-topology"])
def test_polish_is_no_weaker_than_the_attack_that_it_follows(name) -> None:
    """With the same seed, within the same threat."""
    graph, model = random_graph(), gcn(3, 3)
    targets = torch.arange(40)
    graph.y = right_classes(model, graph, targets)
    threat = Threat(scenario="modification", targets=targets, edge_budget=4)
    left = []
    for polish in ("", "+polish=300"):
        attack = load_attack("modification", f"{name}{polish}")
        perturbation = attack.perturb(graph, threat, model, seeded())
        verify(perturbation, graph, threat)
        attacked = apply(graph, perturbation)
        with torch.no_grad():
            left.append(int((model(attacked.x, attacked.edge_index).argmax(1) == graph.y).sum()))
    assert left[1] <= left[0] < 40


def test_flips_are_swept_on_large_graphs_and_without_rows(monkeypatch) -> None:
    """No trial of single flips is made where each costs a large part of a forward pass."""
    graph = random_graph()
    question = question_of(graph, torch.arange(40), 4, gcn(3, 3))
    calls = []
    trials = Victim.with_flips
    monkeypatch.setattr(Victim, "with_flips", lambda *given: calls.append(given) or trials(*given))
    moves = []
    move = DeltaTrials.move
    monkeypatch.setattr(DeltaTrials, "move", lambda *given: moves.append(given) or move(*given))
    search_by_answers(question, NONE, 20, seeded())
    assert len(calls) == 1
    assert moves
    monkeypatch.setattr(answer_search, "MOST_COST", 0.0)
    moves.clear()
    assert right(question, search_by_answers(question, NONE, 60, seeded())) < 40
    assert len(calls) == 2
    assert not moves
    monkeypatch.setattr(answer_search, "LARGE", 50)
    assert right(question, search_by_answers(question, NONE, 60, seeded())) < 40
    assert len(calls) == 2


def test_what_falls_to_one_flip_is_found_on_attention() -> None:
    """Each single flip is weighed exactly, so that none is missed, where sweeps miss most."""
    graph, every = random_graph(), torch.arange(40)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = victim_of(GAT(3, 4, 2, 3).eval().requires_grad_(False))
    graph.y = right_classes(model, graph, every)
    ones = torch.ones_like(every)
    threat = Threat(scenario="modification", targets=every, edge_budget=40, target_budgets=ones)
    fallen = ModificationAnyFlip().verdicts(graph, threat, model).fallen
    assert 10 <= fallen.numel() < 40
    for target in fallen[:10].split(1):
        question = question_of(graph, target, 1, model)
        assert right(question, search_by_answers(question, NONE, 100, seeded())) == 0


class Deceptive:
    """Node 0 is lost with node 7 as a neighbour, by far with two others; one comes close."""

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        near = edge_index[1][edge_index[0] == 0].tolist()
        margin = 0.1 if 7 in near else (-3.0, -0.1, 5.0)[len(near[:2])]
        logits = torch.zeros(x.shape[0], 2)
        logits[0, 1] = margin
        return logits

    def with_flips(self, x: Tensor, edge_index: Tensor, targets: Tensor) -> WholeTrials:
        edges = edge_set(Data(x=x, edge_index=edge_index))
        return WholeTrials(lambda edges: self(x, edges), edges, targets)


def test_an_exact_exchange_is_made_beside_promising_pairs() -> None:
    """Every addition looks as if it could take the place of the flip that is there."""
    graph = graph_of(30, [], x=torch.zeros(30, 1), y=torch.zeros(30, dtype=torch.int64))
    question = question_of(graph, torch.tensor([0]), 1, Deceptive())
    flips = search_by_answers(question, NONE, 3000, seeded())
    assert question.clean.ends(flips).tolist() == [[0], [7]]


class Changing(nn.Module):
    """On a graph of more edges than it was made for it hears its neighbours in another way."""

    def __init__(self, most: int, other: str) -> None:
        super().__init__()
        self.layers, self.linear = GAT(3, 4, 2, 3), nn.Linear(3, 3)
        self.most, self.other = most, other

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.shape[1] <= self.most:
            return self.layers(x, edge_index)
        if self.other == "none":
            return self.linear(x)
        return self.layers(x, edge_index[:, x[edge_index[0], 0] < 1.0])


@pytest.mark.parametrize("other", ["none", "some"])
def test_a_model_that_does_something_else_on_a_changed_graph_is_searched(other) -> None:
    """Though flips cannot be weighed one by one there: its rows are no longer known."""
    graph, every = random_graph(), torch.arange(40)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = victim_of(Changing(graph.num_edges + 6, other).eval().requires_grad_(False))
    assert model.with_flips(graph.x, graph.edge_index, every) is not None
    question = question_of(graph, every, 10, model)
    flips = search_by_answers(question, NONE, 100, seeded())
    assert flips.numel() <= 10
    assert right(question, flips) < 40
