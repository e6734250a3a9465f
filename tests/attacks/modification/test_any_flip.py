"""Every flip of one pair of nodes, against the model called on every such graph."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from two_layers import CLASSES, FEATURES, LAYERS, Two, graph_of, perceptron, victim

from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.modification.shared import flip_set_search, proofs
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.whole_trials import WholeTrials
from grb_check.attacks.protocol import ChangedLogits, ExactTrials, FlipSets
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Threat, apply
from grb_check.attacks.verdicts import Verdicts, untold
from grb_check.errors import ModelError
from grb_check.gradients import exact_trials, flip_deltas
from grb_check.gradients.victim import Victim


def threat(targets: Tensor) -> Threat:
    ones = torch.ones_like(targets)
    return Threat(
        scenario="modification", targets=targets, edge_budget=targets.numel(), target_budgets=ones
    )


def by_force(model: Victim, graph: Data) -> list[bool | None]:
    """Whether each node that is right is lost under some flip; None where it is wrong already."""
    size = graph.num_nodes
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    lost = torch.zeros(size, dtype=torch.bool)
    edges = edge_set(graph)
    for pair in combinations(range(size), 2):
        code = edges.encode(torch.tensor(pair)[:, None])
        flipped = edges.flipped(code).edge_index()
        lost |= model(graph.x, flipped).argmax(1) != graph.y
    return [bool(lost[node]) if right[node] else None for node in range(size)]


def verdicts_by(model: Victim, graph: Data) -> tuple[list[bool | None], Verdicts]:
    targets = torch.arange(graph.num_nodes)
    found = ModificationAnyFlip().verdicts(graph, threat(targets), model)
    verify(found.perturbation, graph, threat(targets))
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    has_flip = torch.isin(targets, found.perturbation.flip_targets)
    lost = [bool(has_flip[node]) if right[node] else None for node in targets.tolist()]
    for node in has_flip.nonzero().squeeze(1).tolist():
        attacked = apply(graph, found.perturbation.of_target(node))
        assert model(attacked.x, attacked.edge_index)[node].argmax() != graph.y[node]
    return lost, found


@pytest.mark.parametrize("name", sorted(LAYERS))
@settings(max_examples=6)
@given(graph=graphs(max_nodes=7), seed=st.integers(0, 2**16))
def test_every_verdict_is_that_of_calling_the_model_for_each_flip(
    name: str, graph: Data, seed: int
) -> None:
    """On the rows that flips reach, as on large graphs, and by calling the model."""
    torch.manual_seed(seed)
    model = victim(Two(LAYERS[name]))
    graph = graph_of(graph.edge_index, graph.num_nodes, seed)
    expected = by_force(model, graph)
    with pytest.MonkeyPatch.context() as patch:
        for most in (60, 0):
            patch.setattr(exact_trials, "MOST_WHOLE", most)
            try:
                lost, found = verdicts_by(model, graph)
            except ModelError:
                assert most == 0, name  # the rows are not known: nothing is said
                continue
            open_ = set(found.undecided.tolist())
            assert [
                one == other or node in open_
                for node, (one, other) in enumerate(zip(lost, expected, strict=True))
            ] == [True] * graph.num_nodes


def test_rows_that_are_right_for_some_flips_alone_are_not_used() -> None:
    """On this path a flip "found" for a target left its class as it was."""
    torch.manual_seed(0)
    model = victim(Two(LAYERS["arma"]))
    graph = graph_of(torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]]), 3, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_trials, "MOST_WHOLE", 0)
        with pytest.raises(ModelError, match="is not known"):
            verdicts_by(model, graph)


# Whose reach is not found out; each has a reason of its own.
UNKNOWN = {
    "arma": "divides by the senders' degrees, beside what has a closed form",
}


@pytest.fixture
def larger() -> Data:
    """A graph of more nodes than are asked for pair by pair, of which each has two neighbours."""
    size = 70
    ring = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
    return graph_of(torch.cat([ring, ring.flip(0)], dim=1), size, 0)


def test_a_target_with_more_close_sets_than_are_noted_is_undecided() -> None:
    """Be they the same ones again, as likely pairs are: one that is not noted may decide."""

    def model(x: Tensor, edge_index: Tensor) -> Tensor:
        lost = not edge_index.numel()
        return torch.tensor([[1.0, 1.0 + (1e-6 if lost else -1e-6)]]).repeat(x.shape[0], 1)

    edges = edge_set(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=4))
    question = flip_set_search.FlipQuestion(
        x=torch.zeros((4, 1)),
        edges=edges,
        targets=torch.tensor([0]),
        labels=torch.tensor([0]),
        budgets=torch.tensor([1]),
        model=model,  # type: ignore[arg-type]
        double=model,  # type: ignore[arg-type]
        answers=lambda nodes: ExactTrials(
            WholeTrials(lambda given: model(torch.zeros((4, 1)), given), edges, nodes),
            torch.ones(4, dtype=torch.bool),
            "proven",
            1e-3,
        ),
        likely=torch.zeros((2, 0), dtype=torch.int64),
        tell=untold,
    )
    search = flip_set_search.FlipSetSearch(question)
    search.ask(torch.tensor([[2], [3]]).repeat(1, 20)[:, :, None])
    search.ask(torch.tensor([[0], [1]])[:, :, None])  # without its edge the target is lost
    assert search.result().undecided.tolist() == [True]


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_the_rows_that_flips_reach_are_known_of_most_layers(name: str, larger: Data) -> None:
    """Else nothing would be said of a graph of any size that matters."""
    torch.manual_seed(0)
    model = victim(Two(LAYERS[name]))
    if name in UNKNOWN:
        with pytest.raises(ModelError, match="is not known"):
            model.exact_flips(larger.x, larger.edge_index, torch.arange(70))
        return
    known = model.exact_flips(larger.x, larger.edge_index, torch.tensor([7]))
    assert known.basis == "checked"
    near = known.near.nonzero().squeeze(1)
    assert {6, 7, 8} <= set(near.tolist())
    assert near.numel() < 20


class Centred(nn.Module):
    """Subtracts the mean of all rows between its layers: every flip reaches every node."""

    def __init__(self, between: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second = pyg.GATConv(FEATURES, 5), pyg.GATConv(5, CLASSES)
        self.between = between

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x, edge_index)
        h = h - h.mean(0) if self.between is None else self.between(h)
        return self.second(h.relu(), edge_index)


@pytest.mark.parametrize(
    ("between", "named"),
    [
        (None, "something between them mixes rows"),
        (pyg.PairNorm(), "its PairNorm may mix rows of all nodes"),
        (nn.BatchNorm1d(5, track_running_stats=False), "its BatchNorm1d may mix rows"),
    ],
    ids=["mean", "PairNorm", "BatchNorm1d"],
)
def test_a_module_that_reaches_further_than_its_layers_is_refused(
    between: nn.Module | None, named: str, larger: Data
) -> None:
    torch.manual_seed(0)
    model = victim(Centred(between))
    with pytest.raises(ModelError, match=named):
        ModificationAnyFlip().verdicts(larger, threat(torch.arange(70)), model)


class Features(nn.Module):
    """Takes edges, and never looks at them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = perceptron(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.inner(x)


class Counting(Features):
    """Looks at nothing but the number of its edges."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits = self.inner(x)
        return -logits if edge_index.shape[1] == 142 else logits


def test_a_model_that_counts_its_edges_is_not_proven(larger: Data) -> None:
    """One more edge than this graph has turns all of its answers round."""
    assert larger.num_edges == 140
    with pytest.raises(ModelError, match="is not known"):
        ModificationAnyFlip().verdicts(larger, threat(torch.arange(70)), victim(Counting()))


def test_a_model_without_the_graph_is_proven_without_a_flip(larger: Data) -> None:
    torch.manual_seed(0)
    found = ModificationAnyFlip().verdicts(larger, threat(torch.arange(70)), victim(Features()))
    assert (found.tried, found.basis, found.undecided.numel()) == (0, "proven", 0)
    assert not found.perturbation.flip_targets.numel()


def labelled_by(model: Victim, graph: Data) -> Data:
    return Data(
        x=graph.x, edge_index=graph.edge_index, y=model(graph.x, graph.edge_index).argmax(1)
    )


def test_what_time_does_not_suffice_for_is_undecided(
    larger: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets that have fallen until then are not; the clock stands still for some flips.

    What is told of the progress is the share of the time, which is larger than that of the flips.
    """
    torch.manual_seed(0)
    model = victim(Two(LAYERS["gcn"]))
    graph = labelled_by(model, larger)
    clock = iter([0.0, *[0.5] * 4, *[2.0] * 1000])
    told: list[float] = []
    monkeypatch.setattr(flip_set_search, "monotonic", lambda: next(clock))
    attack = ModificationAnyFlip(seconds=1.0)
    cut = attack.verdicts(graph, threat(torch.arange(70)), model, told.append)
    monkeypatch.undo()
    whole = ModificationAnyFlip().verdicts(graph, threat(torch.arange(70)), model)
    fallen = set(cut.perturbation.flip_targets.tolist())
    assert set(cut.undecided.tolist()) == set(range(70)) - fallen
    assert 0 < len(fallen) < 70
    assert fallen <= set(whole.perturbation.flip_targets.tolist())
    assert not whole.undecided.numel()
    assert set(told) <= {0.5, 1.0}
    assert told[0] == 0.5


def test_a_time_is_not_exceeded_by_many_slow_flips_at_once(
    larger: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All flips would take more than twice the time."""
    torch.manual_seed(0)
    model = victim(Two(LAYERS["gcn"]))
    graph = labelled_by(model, larger)
    now = 0.0
    tried = flip_deltas.DeltaTrials.tried

    def timed(trials: flip_deltas.DeltaTrials, flip_sets: FlipSets) -> ChangedLogits:
        nonlocal now
        now += 0.1 * flip_sets.count
        return tried(trials, flip_sets)

    monkeypatch.setattr(flip_set_search, "monotonic", lambda: now)
    monkeypatch.setattr(flip_deltas.DeltaTrials, "tried", timed)
    cut = ModificationAnyFlip(seconds=100.0).verdicts(graph, threat(torch.arange(70)), model)
    assert cut.undecided.numel()
    assert 100.0 < now < 120.0


def test_how_far_the_search_is_is_told(larger: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = victim(Two(LAYERS["gcn"]))
    told: list[float] = []
    few_at_a_time = partial(flip_set_search.FlipQuestion, together=140)
    monkeypatch.setattr(proofs, "FlipQuestion", few_at_a_time)
    graph = labelled_by(model, larger)
    ModificationAnyFlip().verdicts(graph, threat(torch.arange(70)), model, told.append)
    assert told == sorted(told)
    assert told[0] == 0.0
    assert 0.9 < told[-1] < 1.0


def test_a_margin_that_rounding_decides_is_undecided(larger: Data) -> None:
    """A class that is as good as the label's, whatever the edges."""

    class Tied(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            logits = super().forward(x, edge_index)
            return torch.stack([logits[:, 0], logits[:, 0], logits[:, 0] - 1], dim=1)

    torch.manual_seed(0)
    model = victim(Tied(LAYERS["gcn"]))
    graph = labelled_by(model, larger)
    found = ModificationAnyFlip().verdicts(graph, threat(torch.arange(70)), model)
    assert found.undecided.tolist() == list(range(70))
    assert not found.perturbation.flip_targets.numel()
