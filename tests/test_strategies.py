"""The public strategies draw what they say, within every bound, and shrink to little."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected

from grb_check import UsageError, strategies
from grb_check.attacks.columns import ColumnLimits
from grb_check.attacks.gangs import threat_of_gangs
from grb_check.attacks.names import Gang
from grb_check.attacks.referee import verify
from grb_check.attacks.scenarios import Evasion
from grb_check.attacks.threat import Threat, apply

Draw = st.DataObject


def check_graph(graph: Data) -> None:
    graph.validate(raise_on_error=True)
    assert graph.x.dtype == torch.float32
    assert graph.edge_index.dtype == graph.y.dtype == torch.int64
    assert not contains_self_loops(graph.edge_index)
    assert is_undirected(graph.edge_index, num_nodes=graph.num_nodes)
    assert graph.is_coalesced()


@given(drawn=st.data(), features=st.integers(0, 3), classes=st.integers(1, 3))
def test_graphs_have_the_sizes_asked_for(drawn: Draw, features: int, classes: int) -> None:
    """From one node to the most, with as many features and labels below the number of classes."""
    graph = drawn.draw(
        strategies.graphs(min_nodes=2, max_nodes=5, features=features, classes=classes)
    )
    check_graph(graph)
    assert 2 <= graph.num_nodes <= 5
    assert graph.x.shape[1] == features
    assert 0 <= int(graph.y.min()) <= int(graph.y.max()) < classes


@given(drawn=st.data())
def test_features_are_rows_of_a_matrix_if_one_is_given(drawn: Draw) -> None:
    """As those of a dataset, which no number drawn would be near."""
    rows = torch.tensor([[1.5, 100.0], [-7.0, 0.1]])
    graph = drawn.draw(strategies.graphs(features=rows))
    assert all((row == rows).all(dim=1).any() for row in graph.x)


@given(graph=strategies.data())
def test_data_has_three_parts(graph: Data) -> None:
    """None is empty, and each node is in one of them."""
    check_graph(graph)
    masks = torch.stack([graph.train_mask, graph.val_mask, graph.test_mask])
    assert masks.any(dim=1).all()
    assert (masks.sum(dim=0) == 1).all()


@given(batch=strategies.batches(max_graphs=3, max_nodes=4))
def test_batches_have_a_label_for_each_graph(batch: Data) -> None:
    """No edge connects two graphs."""
    check_graph_count = int(batch.num_graphs)
    assert 1 <= check_graph_count <= 3
    assert batch.y.shape == (check_graph_count,)
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])


@given(drawn=st.data(), graph=strategies.data())
def test_a_relabeled_graph_is_the_same_graph(drawn: Draw, graph: Data) -> None:
    """Node i is called numbers[i]; labels, features and masks go with it."""
    numbers = drawn.draw(strategies.relabelings(graph.num_nodes))
    renamed = strategies.relabeled(graph, numbers)
    for name in ("x", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(renamed[name][numbers], graph[name])

    def edges(of: Tensor) -> set[tuple[int, ...]]:
        return {tuple(pair) for pair in of.T.tolist()}

    assert edges(renamed.edge_index) == edges(numbers[graph.edge_index])


@st.composite
def threats(draw: object, graph: Data) -> Threat:
    """Of both scenarios, with and without local budgets, from nothing to more than is there."""
    nodes = list(range(graph.num_nodes))
    targets = torch.tensor(draw(st.lists(st.sampled_from(nodes), unique=True)), dtype=torch.int64)
    low = draw(st.floats(-2, 2, width=32))
    limits = (low, low + draw(st.floats(0, 3, width=32)))
    columns = draw(st.one_of(st.none(), st.just(whole_numbers(*limits, graph.x.shape[1]))))
    if draw(st.booleans()):
        return Threat(
            scenario="injection",
            targets=targets,
            injected_nodes=draw(st.integers(0, 3)),
            edges_per_injected_node=draw(st.integers(0, 4)),
            feature_range=limits,
            columns=columns,
        )
    local = st.lists(st.integers(0, 2), min_size=len(nodes), max_size=len(nodes)).map(torch.tensor)
    return Threat(
        scenario="modification",
        targets=targets,
        edge_budget=draw(st.integers(0, 9)),
        modified_nodes=draw(st.integers(0, 3)),
        local_budgets=draw(st.one_of(st.none(), local)),
        feature_range=limits,
        columns=columns,
    )


def whole_numbers(low: float, high: float, count: int) -> ColumnLimits:
    """Columns of any values within the limits, in turn with such of whole numbers above the low."""
    low, high = torch.tensor([low, high], dtype=torch.float32).tolist()
    step = (torch.arange(count) % 2).float()
    lows = torch.full((count,), low)
    highs = torch.where(step > 0, (low + math.floor(high - low)), high)
    return ColumnLimits(low=lows, high=highs, step=step)


@settings(deadline=None)
@given(drawn=st.data(), graph=strategies.graphs(max_nodes=6))
def test_perturbations_keep_to_their_threat(drawn: Draw, graph: Data) -> None:
    """By the referee; and they can be applied."""
    threat = drawn.draw(threats(graph))
    perturbation = drawn.draw(strategies.perturbations(graph, threat))
    verify(perturbation, graph, threat)
    check_graph(apply(graph, perturbation).coalesce())


@given(drawn=st.data(), graph=strategies.graphs(), most=st.integers(0, 4))
def test_edge_flips_are_at_most_so_many(drawn: Draw, graph: Data, most: int) -> None:
    """Added and removed ones together; features stay."""
    flips = drawn.draw(strategies.edge_flips(graph, most=most))
    assert flips.added_edges.shape[1] + flips.removed_edges.shape[1] <= most
    assert flips.modified_nodes.numel() == flips.injected_x.shape[0] == 0


@pytest.mark.slow
@given(drawn=st.data(), graph=strategies.graphs())
def test_injections_are_at_most_so_large(drawn: Draw, graph: Data) -> None:
    """Nodes, edges at each, and values."""
    perturbation = drawn.draw(
        strategies.injections(graph, nodes=3, edges=1, feature_range=(0.5, 2))
    )
    assert perturbation.injected_x.shape[0] <= 3
    assert bool(((perturbation.injected_x >= 0.5) & (perturbation.injected_x <= 2)).all())
    assert int(torch.bincount(perturbation.injected_edges[0], minlength=1).max()) <= 1


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: strategies.graphs(min_nodes=0), "min_nodes is 0 and max_nodes 8"),
        (lambda: strategies.graphs(min_nodes=9), "min_nodes is 9 and max_nodes 8"),
        (lambda: strategies.graphs(features=-1), "features is -1"),
        (lambda: strategies.graphs(features=torch.zeros(0, 2)), r"features has the shape \(0, 2\)"),
        (lambda: strategies.graphs(classes=0), "classes is 0"),
        (lambda: strategies.data(max_nodes=2), "must be at least 3"),
        (lambda: strategies.batches(min_graphs=0), "min_graphs is 0"),
        (lambda: strategies.edge_flips(Data(num_nodes=2), most=-1), "most is -1"),
        (lambda: strategies.injections(Data(num_nodes=2), nodes=-1), "nodes is -1"),
        (
            lambda: strategies.injections(Data(num_nodes=2), feature_range=(1, 0)),
            "lower limit first",
        ),
    ],
)
def test_bad_sizes_are_refused_at_once(ask: object, message: str) -> None:
    """Not when the first example is drawn."""
    with pytest.raises(UsageError, match=message):
        ask()


def test_threats_to_single_targets_are_refused() -> None:
    """Their flips are for one target each."""
    threat = Threat(
        scenario="modification",
        targets=torch.tensor([0]),
        edge_budget=1,
        target_budgets=torch.tensor([1]),
    )
    with pytest.raises(UsageError, match="attacked together"):
        strategies.perturbations(Data(num_nodes=2), threat)


@pytest.mark.parametrize("scenario", ["modification", "injection"])
@settings(deadline=None, max_examples=20)
@given(drawn=st.data(), graph=strategies.graphs(min_nodes=2, max_nodes=8))
def test_perturbations_of_a_gang_have_a_member_in_each_edge(
    drawn: Draw, graph: Data, scenario: Evasion
) -> None:
    whole = Threat(scenario=scenario, targets=torch.arange(graph.num_nodes))
    threat = threat_of_gangs(graph, whole, Gang(2, 2), "here")
    part = threat.parts[0]
    verify(drawn.draw(strategies.perturbations(graph, part)), graph, part)
    with pytest.raises(UsageError, match="attacked together"):
        strategies.perturbations(graph, threat)
