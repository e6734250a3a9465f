"""The search from blends: budgets, what it finds, and links that move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from gang_around_hub import found, hub_graph, hub_model, hub_threat
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from searched_injections import (
    DATASET,
    TARGETS,
    THREAT,
    Hearing,
    blended,
    left,
    means_of_classes,
    question,
)
from strategies import LinearModel, graphs, threats
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection.blended_search import (
    can_search,
    exchanged_links,
    improve_injections,
    search_injections,
    search_kept,
)
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.shared.injected_nodes import InjectionQuestion, LinkedNodes
from grb_check.attacks.injection.shared.kept_rows import NORMS, ways_to_keep
from grb_check.attacks.injection.shared.nearby_links import nearby_links
from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import GradientError


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


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
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
    for kept in search_kept(search_question):
        verify(kept, graph, threat)


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


def test_a_filter_of_single_rows_is_passed_with_rows_like_those_of_the_data() -> None:
    """Free features are refused as soon as they leave the range, and have no gradient there."""
    low, high = DATASET.graph.x.abs().sum(1).quantile(torch.tensor([0.3, 0.7]))

    def accepts(x: Tensor) -> Tensor:
        return ((x.abs().sum(1) >= low) & (x.abs().sum(1) <= high)).float()

    model = Hearing(torch.ones_like, accepts)
    found = search_kept(question(model))
    assert len(found) == len(NORMS) + 1
    free = left(model, search_injections(question(model), by_answers=False))
    assert min(left(model, perturbation) for perturbation in found) < free - 5
    assert not search_kept(question(model, replace(THREAT, one_hot=True)))


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
    start = blended(question(models[0]))
    starts = [LinkedNodes(question(model), start.links).asked(start.features) for model in models]
    exchanged, same = map(exchanged_links, starts)
    assert same is starts[1]
    assert exchanged.value > start.value
    assert not torch.equal(exchanged.links, start.links)


@pytest.mark.parametrize(
    ("weight_of", "most"),
    [
        (lambda degrees: 40 * degrees**-3, 8),  # senders of many links are damped
        (lambda degrees: 2.0 * (degrees <= 4), 4),  # or not heard
    ],
)
def test_a_model_that_distrusts_senders_of_many_links_is_met_with_few(
    weight_of: Callable[[Tensor], Tensor], most: int
) -> None:
    """With all links, hardly a target is lost; a note says how many were used."""
    model = Hearing(weight_of)
    threat = replace(THREAT, injected_nodes=10, edges_per_injected_node=16)
    generator = torch.Generator().manual_seed(0)
    pgd = InjectionPgd().perturb(DATASET.graph, threat, model, generator)
    found = search_injections(question(model, threat), by_answers=False)
    assert left(model, found, threat) < left(model, pgd, threat) - 8
    assert torch.bincount(found.injected_edges[0]).max() <= most
    (note,) = found.notes
    assert note.startswith("less of the budget is stronger: 10 of 10 nodes, ")


def test_a_model_that_falls_back_to_its_features_is_met_with_few_nodes_or_links() -> None:
    """It ignores the graph when there are many more edges than there were."""
    edges = DATASET.graph.edge_index.shape[1]

    class FallsBack(Hearing):
        def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
            many = edge_index.shape[1] > 1.2 * edges
            return super().on_topology(edge_index[:, : 0 if many else None], num_nodes)

    model = FallsBack(lambda degrees: torch.ones_like(degrees))
    threat = replace(THREAT, injected_nodes=10, edges_per_injected_node=16)
    found = search_injections(question(model, threat), by_answers=False)
    assert left(model, found, threat) < left(model, Perturbation(), threat) - 5
    assert 0 < 2 * found.injected_edges.shape[1] <= 0.2 * edges


def test_a_model_that_hears_only_rows_like_those_of_the_data_is_met_with_them() -> None:
    """Of about the same norm: the ascent keeps to it."""
    norms = DATASET.graph.x.norm(dim=1)
    low, high = norms.quantile(0.2), norms.quantile(0.8)

    def usual(x: Tensor) -> Tensor:
        return ((x.norm(dim=1) >= low) & (x.norm(dim=1) <= high)).float()

    model = Hearing(lambda degrees: 3 / degrees, usual)
    found = search_injections(question(model), by_answers=False)
    assert left(model, found) < left(model, Perturbation()) - 5
    assert usual(found.injected_x).any()


def test_a_search_starts_from_what_it_is_given() -> None:
    """And ends no weaker; what it cannot move is left out."""
    model = Hearing(lambda degrees: torch.ones_like(degrees))
    strong = search_injections(question(model), by_answers=True)
    again = search_injections(question(model), by_answers=False, starts=[strong])
    assert left(model, again) <= left(model, strong)
    elsewhere = replace(strong, injected_edges=torch.tensor([[0], [int(DATASET.train[0])]]))
    alone = search_injections(question(model), by_answers=False)
    found = search_injections(question(model), by_answers=False, starts=[elsewhere])
    assert torch.equal(found.injected_x, alone.injected_x)
    assert improve_injections(question(model), [elsewhere]) is None


def test_a_given_perturbation_is_improved_or_beaten_from_blends_on() -> None:
    """By one with the whole budget, if it holds back; a note says that one holds back."""
    asked = question(Hearing(lambda degrees: torch.ones_like(degrees)))
    given = search_injections(asked, by_answers=False)
    part = replace(
        given,
        injected_x=given.injected_x[:3],
        injected_edges=given.injected_edges[:, given.injected_edges[0] < 3],
        notes=(),
    )
    for start in (given, part):
        found = improve_injections(asked, [start])
        assert found is not None
        verify(found, DATASET.graph, THREAT)
        assert left(asked.model, found) <= left(asked.model, start)
        held_back = found.injected_edges.shape[1] < given.injected_edges.shape[1]
        assert any(HELD_BACK in note for note in found.notes) == held_back
    assert left(asked.model, found) < left(asked.model, part) - 5


def test_a_model_that_is_its_own_guide_is_prepared_once() -> None:
    """Though it sees rows in each way to keep them."""
    prepared = []

    class Counting(LinearModel):
        def with_links(self, *given: object) -> Callable[[Tensor, Tensor], Tensor]:
            prepared.append(given)
            return super().with_links(*given)

    model = Counting(DATASET.num_features, DATASET.num_classes, weight=means_of_classes())
    search_kept(question(model))
    assert len(prepared) == len(ways_to_keep(DATASET.graph.x, THREAT))


@pytest.mark.parametrize(("hops", "left"), [(0, 5), (1, 0), (2, 0)])
@pytest.mark.parametrize("by_answers", [False, True])
def test_links_go_to_a_node_that_all_members_know_where_hops_allow_it(
    hops: int, left: int, by_answers: bool
) -> None:
    asked = InjectionQuestion(hub_graph(), hub_threat(hops), hub_model(), hub_model())
    made = search_injections(asked, by_answers=by_answers)
    verify(made, asked.graph, asked.threat)
    assert found(made) == left


def test_a_model_without_gradient_in_links_moves_none_to_other_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = hub_model()
    asked = InjectionQuestion(hub_graph(), hub_threat(1), model, model)
    state = LinkedNodes(asked, torch.tensor([[0], [1]])).asked_once(torch.tensor([[1.0, -1.0]]))
    assert len([*nearby_links(state)]) == 1
    (logits_of,) = asked.linked_model

    def without_gradient(features: Tensor, weights: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise GradientError("no gradient in weights of links")
        return logits_of(features, weights)

    monkeypatch.setitem(vars(asked), "linked_guide", (without_gradient,))
    assert not [*nearby_links(state)]


def test_links_to_targets_are_exchanged_where_those_to_all_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = hub_model()
    asked = InjectionQuestion(hub_graph(), hub_threat(1), model, model)
    monkeypatch.setitem(vars(asked), "linked_guide", "too many")
    (logits_of,) = asked.guide_at_targets
    assert logits_of(torch.ones(1, 2), torch.ones(1, 6)).shape == (6, 2)
