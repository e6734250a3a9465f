"""Hypothesis strategies for graphs and perturbations of them, to test laws of a model.

    from hypothesis import given
    from grb_check import strategies

    @given(graph=strategies.graphs(max_nodes=30, features=4))
    def test_isolated_nodes_have_finite_logits(graph): ...

Graphs are small, without self-loops and with both directions of each edge unless a strategy says
otherwise. Features are multiples of 1/4 or rows of a matrix that is given, so that a failing graph
shrinks to a few nodes whose values can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from grb_check.attacks.scenarios import INJECTION, MODIFICATION
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import UsageError

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError as error:
    raise UsageError(
        "grb_check.strategies needs hypothesis; install it with pip install 'grb-check[properties]'"
    ) from error

MOST_VALUES: Final = 4  # features of a node that are not 0

Draw = Callable[[SearchStrategy[Any]], Any]
Item = TypeVar("Item", bound=Hashable)


def graphs(
    *, min_nodes: int = 1, max_nodes: int = 8, features: int | Tensor = 2, classes: int = 2
) -> SearchStrategy[Data]:
    """Return a strategy for graphs, from no edge to complete.

    Args:
        min_nodes: fewest nodes, at least 1.
        max_nodes: most nodes.
        features: of each node: their number, of which at most `MOST_VALUES` are not 0 and from -2
            to 2; or float [m, d], rows of which one is drawn for each node, such as those of a
            dataset.
        classes: of the labels.

    Returns:
        Data with `x` float32 [N, d], `edge_index` int64 [2, 2E], sorted, and `y` int64 [N].

    Raises:
        UsageError: a number is out of its range.
    """
    _check_sizes("nodes", min_nodes, max_nodes, least=1)
    _check_features(features)
    if classes < 1:
        raise UsageError(f"classes is {classes}; it must be at least 1")
    return _graphs(min_nodes, max_nodes, features, classes)


@st.composite
def _graphs(
    draw: Draw, min_nodes: int, max_nodes: int, features: int | Tensor, classes: int
) -> Data:
    # A node is one element of a list, and a pair has the same place in graphs of every size: so
    # nodes can be taken away, and failing graphs shrink.
    node = st.tuples(_row(features), st.integers(0, classes - 1))
    nodes = draw(st.lists(node, min_size=min_nodes, max_size=max_nodes))
    possible = [(a, b) for b in range(len(nodes)) for a in range(b)]
    few = st.just([]) if not possible else st.lists(st.sampled_from(possible), unique=True)
    edges = draw(st.one_of(few, st.just(possible)))
    return Data(
        x=torch.stack([row for row, _ in nodes]),
        edge_index=_both_ways(edges),
        y=torch.tensor([label for _, label in nodes]),
    )


def data(
    *, min_nodes: int = 3, max_nodes: int = 12, features: int | Tensor = 2, classes: int = 2
) -> SearchStrategy[Data]:
    """Return a strategy for graphs of `graphs` that also have a split, to train and measure on.

    Returns:
        Data with `train_mask`, `val_mask` and `test_mask` bool [N], of which each has at least one
        node and no two have the same.

    Raises:
        UsageError: a number is out of its range.
    """
    _check_sizes("nodes", min_nodes, max_nodes, least=3)
    return _data(
        graphs(min_nodes=min_nodes, max_nodes=max_nodes, features=features, classes=classes)
    )


@st.composite
def _data(draw: Draw, drawn: SearchStrategy[Data]) -> Data:
    graph = draw(drawn)
    num_nodes = int(graph.num_nodes)
    order = draw(relabelings(num_nodes))
    first = draw(st.integers(1, num_nodes - 2))
    second = draw(st.integers(first + 1, num_nodes - 1))
    position = order.argsort()
    graph.train_mask = position < first
    graph.val_mask = (position >= first) & (position < second)
    graph.test_mask = position >= second
    return graph


def batches(
    *,
    min_graphs: int = 1,
    max_graphs: int = 4,
    max_nodes: int = 6,
    features: int | Tensor = 2,
    classes: int = 2,
) -> SearchStrategy[Batch]:
    """Return a strategy for batches of graphs of 1 to `max_nodes` nodes, labelled as a whole.

    Returns:
        Batch with `x`, `edge_index`, `batch` int64 [N] and `y` int64 [number of graphs].

    Raises:
        UsageError: a number is out of its range.
    """
    _check_sizes("graphs", min_graphs, max_graphs, least=1)
    one = graphs(max_nodes=max_nodes, features=features, classes=classes)
    return st.lists(one, min_size=min_graphs, max_size=max_graphs).map(_batch)


def _batch(parts: Sequence[Data]) -> Batch:
    labelled = [Data(x=part.x, edge_index=part.edge_index, y=part.y[:1]) for part in parts]
    return Batch.from_data_list(labelled)


@st.composite
def relabelings(draw: Draw, num_nodes: int) -> Tensor:
    """Return a strategy for new numbers of nodes, int64 [N], see `relabeled`."""
    # A swap of two numbers stays a swap when a node is taken away, so that graphs shrink.
    numbers = list(range(num_nodes))
    for position in range(num_nodes - 1, 0, -1):
        other = position - draw(st.integers(0, position))
        numbers[position], numbers[other] = numbers[other], numbers[position]
    return torch.tensor(numbers, dtype=torch.int64)


def relabeled(graph: Data, numbers: Tensor) -> Data:
    """Return the same graph with node i called numbers[i]: `x`, `y`, masks and edges follow.

    Args:
        graph: of N nodes.
        numbers: int64 [N], of `relabelings`.
    """
    order = numbers.argsort()
    renamed = graph.clone()
    for name, value in graph.to_dict().items():
        if graph.is_node_attr(name):
            renamed[name] = value[order]
    renamed.edge_index = numbers[graph.edge_index]
    return renamed


def perturbations(graph: Data, threat: Threat) -> SearchStrategy[Perturbation]:
    """Return a strategy for perturbations of a graph that keep to a threat.

    Args:
        graph: the clean one, as in `attacks.threat.apply`.
        threat: to nodes that are attacked together.

    Raises:
        UsageError: the threat is to graphs, to single targets, or to several gangs.
    """
    if threat.batch is not None or threat.target_budgets is not None or threat.parts:
        raise UsageError("perturbations are drawn for threats to nodes that are attacked together")
    draw = _modified if threat.scenario == MODIFICATION else _injected
    return draw(graph, threat)


def edge_flips(graph: Data, *, most: int) -> SearchStrategy[Perturbation]:
    """Return a strategy for at most so many added and removed edges.

    Raises:
        UsageError: `most` is below 0.
    """
    _check_least("most", most)
    nodes = torch.arange(int(graph.num_nodes))
    return perturbations(graph, Threat(scenario=MODIFICATION, targets=nodes, edge_budget=most))


def injections(
    graph: Data, *, nodes: int = 2, edges: int = 3, feature_range: tuple[float, float] = (-1, 1)
) -> SearchStrategy[Perturbation]:
    """Return a strategy for at most so many injected nodes with at most so many edges at each.

    Raises:
        UsageError: a number is below 0, or the range is empty.
    """
    _check_least("nodes", nodes)
    _check_least("edges", edges)
    if not feature_range[0] <= feature_range[1]:
        raise UsageError(f"feature_range is {feature_range}; give the lower limit first")
    threat = Threat(
        scenario=INJECTION,
        targets=torch.arange(int(graph.num_nodes)),
        injected_nodes=nodes,
        edges_per_injected_node=edges,
        feature_range=feature_range,
    )
    return perturbations(graph, threat)


@st.composite
def _modified(draw: Draw, graph: Data, threat: Threat) -> Perturbation:
    num_nodes = int(graph.num_nodes)
    present = {(a, b) for a, b in graph.edge_index.T.tolist() if a < b}
    room = [num_nodes] * num_nodes
    if threat.local_budgets is not None:
        room = threat.local_budgets.tolist()
    flips = []
    owned = set(range(num_nodes) if threat.ends is None else threat.ends.tolist())
    possible = [pair for pair in combinations(range(num_nodes), 2) if owned & {*pair}]
    for a, b in draw(_subsets(possible, threat.edge_budget)):
        if room[a] and room[b]:
            flips.append((a, b))
            room[a], room[b] = room[a] - 1, room[b] - 1
    changed = draw(_subsets(threat.targets.tolist(), threat.modified_nodes))
    return Perturbation(
        added_edges=_pairs([pair for pair in flips if pair not in present]),
        removed_edges=_pairs([pair for pair in flips if pair in present]),
        modified_nodes=torch.tensor(changed, dtype=torch.int64),
        modified_x=draw(_rows_within(len(changed), graph, threat)),
    )


@st.composite
def _injected(draw: Draw, graph: Data, threat: Threat) -> Perturbation:
    num_nodes = int(graph.num_nodes)
    new = range(num_nodes, num_nodes + draw(st.integers(0, threat.injected_nodes)))
    room = dict.fromkeys(new, threat.edges_per_injected_node)
    existing = range(num_nodes) if threat.ends is None else threat.ends.tolist()
    possible = [(a, b) for a in new for b in (*existing, *(b for b in new if b > a))]
    links = []
    for a, b in draw(_subsets(possible, len(possible))):
        if room[a] and room.get(b, 1):
            links.append((a - num_nodes, b))
            room[a] -= 1
            if b in room:
                room[b] -= 1
    return Perturbation(
        injected_x=draw(_rows_within(len(new), graph, threat)), injected_edges=_pairs(links)
    )


def _row(features: int | Tensor) -> SearchStrategy[Tensor]:
    """Return a strategy for float32 [d]."""
    if isinstance(features, Tensor):
        return st.integers(0, len(features) - 1).map(lambda index: features[index].float())
    columns = st.integers(0, max(0, features - 1))
    values = st.dictionaries(columns, st.integers(-8, 8), max_size=min(features, MOST_VALUES))
    return values.map(lambda drawn: _filled(drawn, features))


def _filled(values: Mapping[int, int], features: int) -> Tensor:
    row = torch.zeros(features)
    for column, quarters in values.items():
        row[column] = quarters / 4
    return row


def _rows_within(count: int, graph: Data, threat: Threat) -> SearchStrategy[Tensor]:
    """Return a strategy for float32 [count, d] in the feature range, its limits included."""
    low, high = threat.feature_range
    size = count * int(graph.x.shape[1])
    shares = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    return shares.map(
        lambda drawn: threat.nearest(
            low + (high - low) * torch.tensor(drawn).reshape(count, graph.x.shape[1]) / 4
        ).float()
    )


def _subsets(items: list[Item], most: int) -> SearchStrategy[list[Item]]:
    if not items or not most:
        return st.just([])
    return st.lists(st.sampled_from(items), unique=True, max_size=most)


def _pairs(ends: Sequence[tuple[int, int]]) -> Tensor:
    return torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T.contiguous()


def _both_ways(ends: Sequence[tuple[int, int]]) -> Tensor:
    return _pairs(sorted([*ends, *((b, a) for a, b in ends)]))


def _check_sizes(what: str, low: int, high: int, *, least: int) -> None:
    if not least <= low <= high:
        raise UsageError(
            f"min_{what} is {low} and max_{what} {high}; the first must be at least {least} and at "
            f"most the second"
        )


def _check_features(features: int | Tensor) -> None:
    if isinstance(features, Tensor):
        if features.dim() != 2 or not len(features):
            raise UsageError(
                f"features has the shape {tuple(features.shape)}; give float [m, d] with m above 0"
            )
    else:
        _check_least("features", features)


def _check_least(name: str, value: int) -> None:
    if value < 0:
        raise UsageError(f"{name} is {value}; it must be at least 0")
