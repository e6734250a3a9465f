"""Small sets of graphs side by side, threats to them, and models that answer for graphs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from hypothesis import strategies as st
from strategies import Draw, pairs
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.attacks.threat import Threat
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import freeze

NUM_FEATURES = 3


class PooledGcn(nn.Module):
    """Two graph convolutions and the mean over the nodes of each graph."""

    def __init__(self, width: int = 8, classes: int = 2) -> None:
        super().__init__()
        self.first = pyg.GCNConv(NUM_FEATURES, width)
        self.second = pyg.GCNConv(width, classes)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None, batch: Any = None
    ) -> Tensor:
        hidden = self.first(x, edge_index, edge_weight).tanh()
        return pyg.global_mean_pool(self.second(hidden, edge_index, edge_weight), batch)


class PooledGat(nn.Module):
    """Attention, for which no gradient of all pairs is known."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.layer = pyg.GATConv(NUM_FEATURES, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return pyg.global_add_pool(self.layer(x, edge_index), batch)


class Unweighted(nn.Module):
    """Sums over neighbours by a matrix of numpy, where edges can be given no weights."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.linear = nn.Linear(NUM_FEATURES, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        matrix = np.eye(len(x), dtype=np.float32)
        matrix[tuple(edge_index.numpy())] = 1.0
        received = torch.from_numpy(matrix).to(x) @ x
        sums = x.new_zeros((int(batch.max()) + 1, x.shape[1])).index_add(0, batch, received)
        return self.linear(sums.tanh())


def victim_on(graph: Data, module: type[nn.Module] = PooledGcn, seed: int = 0) -> Victim:
    """An untrained model, bound to the graphs."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = module()
    freeze(model)
    convention = detect_convention(model, "forward", "pooled")
    return Victim(Adapter(model, "pooled", convention, batch=graph.batch), 2)


def union_of(sizes: list[int], edges: list[list[tuple[int, int]]], *, seed: int = 0) -> Data:
    """Graphs of these numbers of nodes and these edges, in their own numbers; random features."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    ends = [
        (a + s, b + s) for s, graph_edges in zip(starts, edges, strict=True) for a, b in graph_edges
    ]
    both = sorted([*ends, *((b, a) for a, b in ends)])
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn((sum(sizes), NUM_FEATURES), generator=generator),
        edge_index=pairs(both),
        batch=torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)),
        y=torch.randint(2, (len(sizes),), generator=generator),
    )


def threat_to(graph: Data, budgets: list[int], targets: list[int] | None = None) -> Threat:
    """To all graphs unless `targets` are given, each with its own budget."""
    every = list(range(len(budgets))) if targets is None else targets
    return Threat(
        scenario="modification",
        targets=torch.tensor(every, dtype=torch.int64),
        edge_budget=sum(budgets),
        batch=graph.batch,
        edge_budgets=torch.tensor(budgets),
    )


def injection_to(
    graph: Data,
    budgets: list[int],
    targets: list[int] | None = None,
    *,
    links_each: int = 2,
    one_hot: bool = False,
) -> Threat:
    """Injection into all graphs unless `targets` are given, each with its own budget of nodes."""
    every = list(range(len(budgets))) if targets is None else targets
    return Threat(
        scenario="injection",
        targets=torch.tensor(every, dtype=torch.int64),
        injected_nodes=sum(budgets),
        edges_per_injected_node=links_each,
        feature_range=(0.0, 1.0) if one_hot else (-0.75, 1.5),
        batch=graph.batch,
        node_budgets=torch.tensor(budgets),
        one_hot=one_hot,
    )


@st.composite
def unions(draw: Draw, max_graphs: int = 4, max_nodes: int = 8) -> tuple[Data, Threat]:
    """Sets of graphs of 1 to `max_nodes` nodes, with and without edges, and threats with budgets of
    0 to 3 flips, to all of them or some."""
    sizes = draw(st.lists(st.integers(1, max_nodes), min_size=1, max_size=max_graphs))
    edges = []
    for size in sizes:
        possible = list(combinations(range(size), 2))
        some = st.lists(st.sampled_from(possible), unique=True) if possible else st.just([])
        edges.append(draw(st.one_of(some, st.just([]), st.just(possible))))
    graph = union_of(sizes, edges, seed=draw(st.integers(0, 2**16)))
    budgets = draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)))
    targets = draw(st.one_of(st.none(), st.lists(st.sampled_from(range(len(sizes))), unique=True)))
    return graph, threat_to(graph, budgets, targets)
