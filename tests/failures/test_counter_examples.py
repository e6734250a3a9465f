"""Smallest counter-examples of tiny models, measured again with other code."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_graphs import community_dataset, set_of_graphs
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv, global_add_pool

from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.cases.counter_example import CounterExample
from grb_check.cases.metrics import relative_drop
from grb_check.datasets.graph_dataset import GraphDataset, graph_dataset
from grb_check.errors import ModelError
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.failures.counter_examples import _linked, _part, smallest
from grb_check.failures.evidence import CaseLimits
from grb_check.failures.replay import Replay
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN, parse_convention

DATASET = community_dataset()
NODES = DATASET.num_nodes
TARGETS = DATASET.test["full"]
ANYTHING = {"scenario": "injection", "targets": TARGETS}
few = settings(
    deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Fitted(torch.nn.Module):
    """A linear map of features and of the sums of neighbours' features."""

    def __init__(self, forward_gradient: bool = True) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(8, 3))
        self.forward_gradient = forward_gradient

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = x if self.forward_gradient else x.detach()
        around = torch.zeros_like(x).index_add(0, edge_index[0], x[edge_index[1]])
        return (x + around) @ self.weight


class RingsAndStars(torch.nn.Module):
    """Predicts class 0 for graphs with at least as many edges as nodes: rings, not stars."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = SimpleConv(aggr="sum")

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        degree = self.layer(torch.ones_like(x[:, :1]), edge_index)
        beyond = global_add_pool(degree - 2, batch) + 1 + 0 * global_add_pool(x, batch)[:, :1]
        return torch.cat([beyond, -beyond], dim=1)


def replay_of(module: torch.nn.Module, graph: Data, threat: Threat, victim: Victim | None = None):
    if victim is None:
        victim = Victim(Adapter(module.eval().requires_grad_(False), "tiny", PLAIN), 3)
    return Replay(TrainedModel(victim, predict(victim, graph, 0)), graph, threat, 0)


@cache
def replay() -> Replay:
    return replay_of(Fitted(), DATASET.graph, Threat(**ANYTHING))


def injection(count: int = 6, links: int = 8, seed: int = 0) -> Perturbation:
    """Nodes with features of one class, linked to targets of the others."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.arange(count) % 3
    ends = []
    for node in range(count):
        others = TARGETS[DATASET.graph.y[TARGETS] != classes[node]]
        chosen = others[torch.randperm(others.numel(), generator=generator)[:links]]
        ends.append(torch.stack([torch.full((links,), node), chosen]))
    inner = torch.tensor([[0], [NODES + 1]])
    return Perturbation(
        injected_x=8 * torch.eye(3, 8)[classes], injected_edges=torch.cat([*ends, inner], dim=1)
    )


def modification(count: int = 40, seed: int = 0) -> Perturbation:
    """Edges between classes added, edges within them removed, features of two targets changed."""
    generator = torch.Generator().manual_seed(seed)
    graph = DATASET.graph
    pairs = torch.combinations(torch.arange(NODES)).T
    differ = graph.y[pairs[0]] != graph.y[pairs[1]]
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    possible = pairs[:, differ]  # communities have edges inside alone
    return Perturbation(
        added_edges=possible[:, torch.randperm(possible.shape[1], generator=generator)[:count]],
        removed_edges=edges[:, torch.randperm(edges.shape[1], generator=generator)[:count]],
        modified_nodes=TARGETS[:2],
        modified_x=-20 * graph.x[TARGETS[:2]],
    )


def drop_of(stage: Replay, perturbation: Perturbation) -> float:
    """The drop, measured without the code under test."""

    def accuracy(graph: Data) -> float:
        with torch.no_grad():
            predicted = stage.model.victim(graph.x, graph.edge_index).argmax(1)
        right = predicted[stage.targets] == stage.graph.y[stage.targets]
        return float(right.numpy().mean())

    return relative_drop(accuracy(stage.graph), accuracy(apply(stage.graph, perturbation)))


def count_units(perturbation: Perturbation, num_nodes: int) -> int:
    """Changed edges, links, modified nodes, and injected nodes without a link."""
    edges = (perturbation.added_edges, perturbation.removed_edges, perturbation.injected_edges)
    new, other = perturbation.injected_edges
    linked = set(new.tolist()) | set((other - num_nodes).tolist())
    alone = set(range(perturbation.injected_x.shape[0])) - linked
    return sum(links.shape[1] for links in edges) + perturbation.modified_nodes.numel() + len(alone)


def checked(
    stage: Replay, whole: Perturbation, limit: float
) -> tuple[CounterExample, Perturbation]:
    small = smallest(stage, whole, CaseLimits(drop=limit))
    assert small is not None
    example, part = small
    assert drop_of(stage, part) == pytest.approx(example.drop)
    assert example.drop > limit
    assert example.units_after == count_units(part, stage.graph.num_nodes)
    assert example.units_after <= example.units_before
    return small


@few
@given(st.integers(0, 99), st.sampled_from([0.02, 0.1, 0.2]))
def test_a_small_injection_still_breaks_the_limit_and_no_link_can_go(
    seed: int, limit: float
) -> None:
    """The injected nodes that remain are from the whole perturbation, renumbered."""
    whole = injection(seed=seed)
    example, part = checked(replay(), whole, limit)
    generous = Threat(
        **ANYTHING, injected_nodes=6, edges_per_injected_node=9, feature_range=(-99.0, 99.0)
    )
    verify(part, DATASET.graph, generous)
    assert example.minimal
    links = [("link", position) for position in range(part.injected_edges.shape[1])]
    for index in range(len(links)):
        fewer = _part(part, links[:index] + links[index + 1 :], NODES)
        assert drop_of(replay(), fewer) <= limit
    assert bool(_linked(part, NODES).all())
    assert {tuple(row) for row in part.injected_x.tolist()} <= {
        tuple(row) for row in whole.injected_x.tolist()
    }
    assert set(part.injected_edges[1].tolist()) <= set(range(NODES + 6))


@few
@given(st.integers(0, 99), st.sampled_from([0.03, 0.07]))
def test_a_small_modification_is_a_part_of_the_whole_that_breaks_the_limit(
    seed: int, limit: float
) -> None:
    """Added edges, removed edges and features: each remaining one is needed."""
    whole = modification(seed=seed)
    example, part = checked(replay(), whole, limit)
    for name in ("added_edges", "removed_edges"):
        columns = {tuple(pair) for pair in getattr(part, name).T.tolist()}
        assert columns <= {tuple(pair) for pair in getattr(whole, name).T.tolist()}
    assert set(part.modified_nodes.tolist()) <= set(whole.modified_nodes.tolist())
    assert example.minimal
    for name in ("added_edges", "removed_edges"):
        pairs = getattr(part, name)
        for left_out in range(pairs.shape[1]):
            rest = torch.arange(pairs.shape[1]) != left_out
            assert drop_of(replay(), replace(part, **{name: pairs[:, rest]})) <= limit


def test_a_case_within_its_limits_has_no_counter_example() -> None:
    """Neither has a case without limits; the clean floor is ignored."""
    assert smallest(replay(), injection(), CaseLimits(drop=0.99)) is None
    assert smallest(replay(), injection(), CaseLimits(clean=1.0)) is None
    assert smallest(replay(), injection(), CaseLimits(drop=0.99, clean=1.0)) is None


def test_a_victim_that_answers_otherwise_when_asked_again_is_an_error() -> None:
    """As scattered sums on a GPU may: a reported counter-example has to break the limit."""
    whole, times = injection(), iter([True])

    class Forgetful(Replay):
        def after(self, perturbation: Perturbation) -> Tensor:
            return super().after(perturbation) if next(times, False) else self.before

    sure = replay()
    stage = Forgetful(sure.model, sure.graph, sure.threat, sure.seed)
    with pytest.raises(ModelError, match="called again"):
        smallest(stage, whole, CaseLimits(drop=0.02), most_tests=0)


@pytest.mark.parametrize("whole", [injection(), modification()], ids=["injection", "modification"])
def test_a_model_without_gradients_is_shrunk_too(whole: Perturbation) -> None:
    """In the given order, and the result is still 1-minimal."""
    numpys = replay_of(Fitted(forward_gradient=False), DATASET.graph, Threat(**ANYTHING))
    example, _ = checked(numpys, whole, 0.1)
    assert example.minimal
    assert example.units_after < example.units_before / 2


def test_edges_of_a_set_of_graphs() -> None:
    """Targets are graphs: one edge for each is enough, all others are left out."""
    stage = graph_stage(graph_dataset(set_of_graphs()))
    graph = stage.graph
    ends = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    whole = Perturbation(removed_edges=ends)
    assert drop_of(stage, Perturbation()) == 0
    rings = int((graph.y == 0).sum())
    assert drop_of(stage, whole) == pytest.approx(rings / stage.targets.numel())
    example, part = checked(stage, whole, 4.5 / stage.targets.numel())
    assert (example.units_after, example.minimal) == (5, True)
    assert graph.batch[part.removed_edges[0]].unique().numel() == 5
    assert [(flip.label, flip.before, flip.after) for flip in example.flipped] == [(0, 0, 1)] * 5


def graph_stage(dataset: GraphDataset) -> Replay:
    graph = dataset.graph
    convention = parse_convention("x, edge_index, batch")
    module = RingsAndStars().eval()
    victim = Victim(Adapter(module, "edges", convention, batch=graph.batch), 2)
    budgets = torch.full((dataset.num_graphs,), 9)
    threat = Threat(
        scenario="modification",
        targets=torch.arange(dataset.num_graphs),
        edge_budget=int(budgets.sum()),
        batch=graph.batch,
        edge_budgets=budgets,
    )
    return replay_of(module, graph, threat, victim)
