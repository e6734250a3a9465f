"""The search from blends: budgets, what it finds, and links that move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from small_graphs import community_dataset
from strategies import LinearModel, graphs, threats
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection import blended_search
from grb_check.attacks.injection.blended_search import (
    InjectionQuestion,
    best_blend,
    can_search,
    exchanged_links,
    moved_links,
    search_injections,
)
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat, apply, verify

DATASET = community_dataset()
TARGETS = DATASET.test["full"]
THREAT = Threat(
    scenario="injection",
    targets=TARGETS,
    injected_nodes=6,
    edges_per_injected_node=5,
    feature_range=(-2.0, 2.0),
)


def means_of_classes() -> Tensor:
    """Weights float [d, c] by which a node has the class whose mean its features are closest to."""
    graph = DATASET.graph
    labels = F.one_hot(graph.y).float()
    means = labels.T @ graph.x / labels.sum(0)[:, None]
    return (means - graph.x.mean(0)).T


class Filtering(LinearModel):
    """Removes links between nodes whose features have a cosine below `threshold`."""

    def __init__(self, threshold: float) -> None:
        super().__init__(DATASET.num_features, DATASET.num_classes, weight=means_of_classes())
        self.threshold = threshold

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        unit = F.normalize(x.detach(), dim=1)
        cosine = (unit[edge_index[0]] * unit[edge_index[1]]).sum(1)
        similar = edge_index[:, cosine >= self.threshold]
        return super().on_topology(similar, x.shape[0])(x)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        return lambda x: self(x, edge_index)


def question(model: DifferentiableModel, threat: Threat = THREAT) -> InjectionQuestion:
    return InjectionQuestion(DATASET.graph, threat, model, model)


def left(model: DifferentiableModel, perturbation: Perturbation) -> int:
    """Number of targets that stay right."""
    graph = DATASET.graph
    verify(perturbation, graph, THREAT)
    attacked = apply(graph, perturbation)
    predicted = model(attacked.x, attacked.edge_index).argmax(1)
    return int((predicted[TARGETS] == graph.y[TARGETS]).sum())


@given(st.data(), st.booleans())
def test_it_stays_within_any_threat(data: st.DataObject, by_answers: bool) -> None:
    """Also with fewer targets than links, and a range of a single value."""
    graph: Data = data.draw(graphs())
    threat = data.draw(threats(graph, "injection"))
    assume(can_search(threat))
    model = LinearModel(graph.num_features, int(graph.y.max()) + 1)
    search_question = InjectionQuestion(graph, threat, model, model)
    first = search_injections(search_question, by_answers=by_answers)
    verify(first, graph, threat)
    assert torch.isin(first.injected_edges[1], threat.targets).all()
    again = search_injections(search_question, by_answers=by_answers)
    assert torch.equal(first.injected_x, again.injected_x)
    assert torch.equal(first.injected_edges, again.injected_edges)


def test_threats_without_links_or_to_sets_of_graphs_are_not_searched() -> None:
    assert can_search(THREAT)
    assert not can_search(replace(THREAT, injected_nodes=0))
    assert not can_search(replace(THREAT, edges_per_injected_node=0))
    assert not can_search(replace(THREAT, targets=TARGETS[:0]))
    batch = torch.zeros(DATASET.num_nodes, dtype=torch.int64)
    of_graphs = replace(THREAT, targets=TARGETS[:0], batch=batch, node_budgets=torch.tensor([3]))
    assert not can_search(of_graphs)
    assert not can_search(Threat(scenario="modification", targets=TARGETS, edge_budget=3))


def test_a_filter_on_features_is_passed() -> None:
    """Random features never pass it, and the gradient through links that are kept cannot tell."""
    model = Filtering(0.3)
    start = left(model, Perturbation())
    pgd = InjectionPgd().perturb(DATASET.graph, THREAT, model, torch.Generator().manual_seed(0))
    from_blends = left(model, search_injections(question(model), by_answers=False))
    by_answers = left(model, search_injections(question(model), by_answers=True))
    assert left(model, pgd) > start - 3
    assert from_blends < start - 5
    assert by_answers <= from_blends


def test_it_needs_no_gradient_of_the_model_itself() -> None:
    """Those of a guide do."""

    class Opaque(LinearModel):
        def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
            forward = super().on_topology(edge_index, num_nodes)
            return lambda x: forward(x).detach()

    weight = means_of_classes()
    guide = LinearModel(DATASET.num_features, DATASET.num_classes, weight=weight)
    model = Opaque(DATASET.num_features, DATASET.num_classes, weight=weight)
    guided = InjectionQuestion(DATASET.graph, THREAT, model, guide)
    white_box = InjectionQuestion(DATASET.graph, THREAT, guide, guide)
    perturbation = search_injections(guided, by_answers=True)
    assert left(model, perturbation) == left(model, search_injections(white_box, by_answers=True))


def test_agia_exchanges_links_from_there_on() -> None:
    """Unless the guide takes no weights of links: then those of the blends stay."""
    weight = means_of_classes()

    class Unweighted(LinearModel):
        def with_links(self, *_: object) -> None:
            return None

    models = [
        kind(DATASET.num_features, DATASET.num_classes, weight=weight)
        for kind in (LinearModel, Unweighted)
    ]
    start = best_blend(question(models[0]))
    exchanged, same = (exchanged_links(question(model), start) for model in models)
    assert same is start
    assert exchanged.value > start.value
    assert not torch.equal(exchanged.links, start.links)


def test_links_move_from_lost_targets_to_right_ones_of_the_same_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every target that was lost keeps a link, and no node has two links to one target."""
    monkeypatch.setattr(blended_search, "MOVED", (1.0,))
    model = LinearModel(DATASET.num_features, DATASET.num_classes, weight=means_of_classes())
    link_question = question(model, replace(THREAT, injected_nodes=10))
    before = best_blend(link_question)
    after = moved_links(link_question, before)
    moved = before.ends != after.ends
    assert moved.any()
    assert (before.margins[before.ends[moved]] > 0).all()
    assert (before.margins[after.ends[moved]] <= 0).all()
    assert torch.isin(before.ends[before.margins[before.ends] > 0], after.ends).all()
    assert after.links.unique(dim=1).shape == after.links.shape
