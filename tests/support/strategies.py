"""Hypothesis strategies for small graphs, threats and perturbations, and a model to attack."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Perturbation, Threat

Draw = Callable[[st.SearchStrategy[Any]], Any]


class LinearModel:
    """One propagation step with symmetric normalisation and fixed weights, random if not given."""

    def __init__(
        self, num_features: int, num_classes: int, seed: int = 0, *, weight: Tensor | None = None
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn((num_features, num_classes), generator=generator)
        self._weight = drawn if weight is None else weight

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        assert edge_weight is None
        return self.on_topology(edge_index, x.shape[0])(x)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        loops = torch.arange(num_nodes).expand(2, -1)
        row, col = torch.cat([edge_index, loops], dim=1)
        scale = torch.bincount(row, minlength=num_nodes).float().rsqrt()
        weight = (scale[row] * scale[col])[:, None]

        def logits(x: Tensor) -> Tensor:
            messages = (x @ self._weight)[col] * weight
            return torch.zeros(num_nodes, messages.shape[1]).index_add(0, row, messages)

        return logits

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        logits = self.on_topology(edge_index, x.shape[0] + count)
        return lambda injected: logits(torch.cat([x, injected]))[targets]

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor]:
        num_nodes = x.shape[0]

        def logits(injected: Tensor, weights: Tensor) -> Tensor:
            links = torch.zeros(count, num_nodes).index_copy(1, candidates, weights)
            above = torch.zeros(num_nodes, num_nodes)
            above[edge_index[0], edge_index[1]] = 1.0
            below = torch.cat([links, torch.zeros(count, count)], dim=1)
            above = torch.cat([above, links.T], dim=1)
            matrix = torch.cat([above, below]) + torch.eye(num_nodes + count)
            scale = matrix.sum(1).rsqrt()
            h = torch.cat([x, injected]) @ self._weight
            return (scale[:, None] * (matrix @ (scale[:, None] * h)))[targets]

        return logits

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        num_nodes = x.shape[0]
        fixed = torch.eye(num_nodes)
        fixed[edge_index[0], edge_index[1]] = 1.0
        fixed[pairs[0], pairs[1]] = 0.0
        fixed[pairs[1], pairs[0]] = 0.0

        def logits(weights: Tensor) -> Tensor:
            both = torch.cat([pairs, pairs.flip(0)], dim=1)
            matrix = fixed.index_put((both[0], both[1]), weights.repeat(2), accumulate=True)
            scale = matrix.sum(1).rsqrt()
            h = x @ self._weight
            return (scale[:, None] * (matrix @ (scale[:, None] * h)))[targets]

        return logits

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> None:
        return None


class UnweightedModel:
    """A `LinearModel` that takes no weights of edges."""

    def __init__(self, num_features: int, num_classes: int, seed: int = 0) -> None:
        self._model = LinearModel(num_features, num_classes, seed)

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self._model(x, edge_index, edge_weight)

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        return self._model.with_injected(x, edge_index, count, targets)

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> None:
        return None

    def with_pairs(self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor) -> None:
        return None

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> None:
        return None


def pairs(ends: list[tuple[int, int]]) -> Tensor:
    """int64 [2, m] of a list of pairs."""
    return torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).t().contiguous()


def graph_of(
    num_nodes: int,
    edges: list[tuple[int, int]],
    *,
    x: Tensor | None = None,
    y: Tensor | None = None,
) -> Data:
    """A graph in the form of `Dataset.graph` from its undirected edges."""
    both = sorted([*edges, *((second, first) for first, second in edges)])
    x = torch.zeros((num_nodes, 2)) if x is None else x
    y = torch.arange(num_nodes) % 2 if y is None else y
    return Data(x=x, edge_index=pairs(both), y=y)


def undirected(graph: Data) -> set[tuple[int, int]]:
    """The edges of a graph as a set of pairs, first < second."""
    return {(a, b) for a, b in graph.edge_index.t().tolist() if a < b}


def _values(draw: Draw, rows: int, columns: int, limits: tuple[float, float]) -> Tensor:
    seed = draw(st.integers(0, 2**16))
    uniform = torch.rand((rows, columns), generator=torch.Generator().manual_seed(seed))
    return (limits[0] + (limits[1] - limits[0]) * uniform).clamp(*limits)


def _subset(draw: Draw, items: list[Any], most: int | None = None) -> list[Any]:
    if not items:
        return []
    return draw(st.lists(st.sampled_from(items), unique=True, max_size=most))


@st.composite
def graphs(draw: Draw, max_nodes: int = 8) -> Data:
    """Graphs of 1 to `max_nodes` nodes from no edge to complete, 1 to 3 features and classes."""
    num_nodes = draw(st.integers(1, max_nodes))
    possible = list(combinations(range(num_nodes), 2))
    edges = draw(st.one_of(st.just(possible), st.just([]), st.just(None)))
    edges = _subset(draw, possible) if edges is None else edges
    classes = draw(st.integers(1, 3))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=num_nodes, max_size=num_nodes))
    x = _values(draw, num_nodes, draw(st.integers(1, 3)), (-1.0, 1.0))
    return graph_of(num_nodes, edges, x=x, y=torch.tensor(labels))


@st.composite
def threats(draw: Draw, graph: Data, scenario: Scenario, *, local: bool = False) -> Threat:
    """Threats to any targets of the graph, none included, with budgets from 0 to beyond use.

    With `local`, modifications also have local budgets.
    """
    targets = torch.tensor(sorted(_subset(draw, list(range(graph.num_nodes)))), dtype=torch.int64)
    low = draw(st.floats(-2, 2))
    limits = (low, low + draw(st.floats(0, 3)))
    if scenario == "injection":
        return Threat(
            scenario=scenario,
            targets=targets,
            injected_nodes=draw(st.integers(0, 5)),
            edges_per_injected_node=draw(st.integers(0, 10)),
            feature_range=limits,
        )
    at_nodes = st.lists(st.integers(0, 3), min_size=graph.num_nodes, max_size=graph.num_nodes)
    return Threat(
        scenario=scenario,
        targets=targets,
        edge_budget=draw(st.integers(0, 40)),
        local_budgets=torch.tensor(draw(at_nodes)) if local else None,
        modified_nodes=draw(st.integers(0, 4)),
        feature_range=limits,
    )


@st.composite
def perturbations(draw: Draw, graph: Data, threat: Threat) -> Perturbation:
    """Any perturbation within the threat."""
    num_nodes, num_features = graph.x.shape
    if threat.scenario == "modification":
        present = undirected(graph)
        flips = _subset(draw, list(combinations(range(num_nodes), 2)), threat.edge_budget)
        nodes = _subset(draw, threat.targets.tolist(), threat.modified_nodes)
        return Perturbation(
            added_edges=pairs([pair for pair in flips if pair not in present]),
            removed_edges=pairs([pair for pair in flips if pair in present]),
            modified_nodes=torch.tensor(nodes, dtype=torch.int64),
            modified_x=_values(draw, len(nodes), num_features, threat.feature_range),
        )
    injected = draw(st.integers(0, threat.injected_nodes))
    room = dict.fromkeys(range(num_nodes, num_nodes + injected), threat.edges_per_injected_node)
    chosen = []
    possible = [
        (new, other) for new in room for other in (*range(num_nodes), *(n for n in room if n > new))
    ]
    for new, other in _subset(draw, possible):
        if room[new] and room.get(other, 1):
            chosen.append((new - num_nodes, other))
            room[new] -= 1
            if other in room:
                room[other] -= 1
    return Perturbation(
        injected_x=_values(draw, injected, num_features, threat.feature_range),
        injected_edges=pairs(chosen),
    )


@st.composite
def attacked(draw: Draw, scenario: Scenario | None = None) -> tuple[Data, Threat, Perturbation]:
    """A graph, a threat to it and a perturbation within that."""
    graph = draw(graphs())
    kind = scenario or draw(st.sampled_from(["modification", "injection"]))
    threat = draw(threats(graph, kind))
    return graph, threat, draw(perturbations(graph, threat))
