"""Graphs side by side with nodes injected into each, and the search for these nodes' features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.candidate_flips import RowObjective, row_objective
from grb_check.attacks.graph_sets.graph_list import passes
from grb_check.attacks.injection.shared.domains import domain_of
from grb_check.attacks.injection.shared.feature_search import (
    FeatureSearchSettings,
    LogitsOfFeatures,
    Place,
    ValuesOfFeatures,
    gradients,
    maximise_each,
)
from grb_check.attacks.injection.shared.harmony import homophily_of_nodes
from grb_check.attacks.injection.shared.steps import Step
from grb_check.attacks.injection.shared.weak_targets import mean_probabilities
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel, GraphModel, members
from grb_check.attacks.threat import Perturbation, Threat, apply

TRIED: Final = 3  # columns of a node that are tried, those of largest gradient
STEPS: Final = 60  # in each of which one node of every group is tried
LEAST: Final = 1e-6  # gain, relative to the value (or to 1, if larger)
# With a single target these rise and fall with its margin, but are flat where that is large.
FLAT: Final = ("tanh_margin", "held_margin", "probability_margin", "clipped_likelihood")
ENOUGH: Final = 4.0  # the margin, in nats, at which a graph is left


def best_columns(
    values_for: Callable[[Tensor], ValuesOfFeatures],
    rows: Tensor,
    owners: Tensor,
    *,
    count: int,
    highest: float,
    moves: Tensor | None = None,
) -> Tensor:
    """Return one-hot rows [n, d], each group with a value no lower than before.

    The nodes of a group take turns; the columns of largest gradient are tried and the best one
    kept. A group is left when none of its nodes gained in a turn, or its value is high enough. A
    relaxed search ends between columns, and the largest entry of a row is not always the best.

    Args:
        values_for, owners, count, highest, moves: as of `feature_search.maximise_each`.
        rows: float [n, d], one-hot.
    """
    free = torch.ones_like(owners, dtype=torch.bool) if moves is None else moves.to(owners.device)
    sizes = torch.bincount(owners[free], minlength=count)
    position = torch.full_like(owners, -1)
    position[free] = _ranks(owners[free], sizes)
    idle = torch.zeros_like(sizes)
    going = sizes > 0
    best = rows.clone()
    for step in range(STEPS):
        groups = going.nonzero().squeeze(1)
        if not groups.numel():
            break
        inside = going[owners]
        values = values_for(groups.cpu())
        turn = (position == step % sizes.clamp(min=1)[owners])[inside]
        result, gained, top = _one_exchanged(values, best[inside], owners[inside], groups, turn)
        best[inside] = result
        idle[groups] = torch.where(gained, 0, idle[groups] + 1)
        going[groups] = (idle[groups] < sizes[groups]) & (top < highest)
    return best


def _one_exchanged(
    value_of: ValuesOfFeatures, rows: Tensor, owners: Tensor, groups: Tensor, turn: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows with the best columns at `turn` bool [n], one node of each group [h], whether
    each group gained bool [h], and its value float64 [h]."""
    number = torch.searchsorted(groups, owners)
    variable = rows.detach().clone().requires_grad_()
    with torch.enable_grad():
        values = value_of(variable)
        (gradient,) = gradients(values.sum(), variable)
    before = top = values.detach().double()
    gains = gradient.masked_fill(rows > 0, -torch.inf)[turn]
    for column in gains.topk(min(TRIED, rows.shape[1] - 1), dim=1).indices.unbind(1):
        tried = variable.detach().clone()
        tried[turn] = torch.nn.functional.one_hot(column, rows.shape[1]).to(rows)
        with torch.no_grad():
            reached = value_of(tried).double()
        better = reached > top + LEAST * top.abs().clamp(min=1.0)
        top = torch.where(better, reached, top)
        rows = torch.where((turn & better[number])[:, None], tried, rows)
    return rows, top > before, top


def _ranks(owners: Tensor, sizes: Tensor) -> Tensor:
    """Return the place of each entry among those of its group, int64 [n]."""
    order = owners.argsort(stable=True)
    starts = (sizes.cumsum(0) - sizes)[owners[order]]
    ranks = torch.empty_like(owners)
    ranks[order] = torch.arange(owners.numel(), device=owners.device) - starts
    return ranks


def place_in_graphs(graph: Data, threat: Threat, model: DifferentiableModel) -> Place:
    """Return how nodes are injected into graphs; arguments as of `nodes_in_graphs`."""
    return lambda links, owners: nodes_in_graphs(graph, links, threat, model, owners)


def nodes_in_graphs(
    graph: Data, links: Tensor, threat: Threat, model: DifferentiableModel, owners: Tensor
) -> NodesInGraphs:
    """Return nodes injected into graphs.

    Args:
        graph: graphs side by side; `y` holds the labels to move them away from.
        links: `injected_edges` [2, e].
        threat: to graphs.
        model: bound to the graphs; the objective is averaged over its members.
        owners: int64 [n], the graph of each node.
    """
    nothing = graph.x.new_zeros((owners.numel(), graph.x.shape[1]))
    attacked = apply(
        graph,
        Perturbation(injected_x=nothing, injected_edges=links, injected_graphs=owners),
    )
    return NodesInGraphs(
        graph,
        attacked,
        links,
        threat.targets.to(graph.x.device),
        tuple(cast(GraphModel, member) for member in members(model)),
        owners.to(graph.x.device),
        domain_of(threat).rounded if threat.one_hot else None,
    )


@dataclass(frozen=True, eq=False)
class NodesInGraphs:
    """`PlacedNodes` in graphs side by side.

    Attributes:
        clean: the graphs without them; `y` int64 [G] holds the labels to move away from.
        attacked: the graphs with them, see `apply`.
        links: `injected_edges` [2, e].
        targets: int64 [t], graphs.
        members: models of graphs, over which the objective is averaged.
        owners: int64 [n], the graph of each injected node.
        rounded: see `maximise_each`.
    """

    clean: Data
    attacked: Data
    links: Tensor
    targets: Tensor
    members: tuple[GraphModel, ...]
    owners: Tensor
    rounded: Callable[[Tensor], Tensor] | None

    def best_features(
        self,
        start: Tensor,
        step: Step,
        settings: FeatureSearchSettings,
        moves: Tensor | None = None,
    ) -> Tensor:
        """See `PlacedNodes`; each graph has its own ascent.

        Graphs share forward passes of bounded size; those in which no node moves are left out.
        """
        best = start.detach().to(torch.float32, copy=True)
        moving = self.owners if moves is None else self.owners[moves.to(self.owners.device)]
        for graphs, rows in self._passes(torch.unique(moving)):
            number = torch.empty_like(self.clean.y)
            number[graphs] = torch.arange(graphs.numel(), device=graphs.device)
            values_for, owners = self._values_for(graphs, rows, settings), number[self.owners[rows]]
            may_move = None if moves is None else moves[rows.to(moves.device)]
            count, highest = graphs.numel(), _highest(settings)
            result = maximise_each(
                values_for,
                start[rows],
                owners,
                count=count,
                step=step,
                iterations=settings.iterations,
                patience=settings.patience,
                highest=highest,
                moves=may_move,
                rounded=self.rounded,
            )
            if self.rounded is not None:
                result = best_columns(
                    values_for,
                    self.rounded(result),
                    owners,
                    count=count,
                    highest=highest,
                    moves=may_move,
                )
            best[rows] = result
        return best

    def probabilities(self, features: Tensor) -> Tensor:
        """See `PlacedNodes`."""
        result: list[Tensor] = []
        every = torch.arange(self.clean.y.numel(), device=self.owners.device)
        for graphs, rows in self._passes(every):
            with torch.no_grad():
                logits = [logits_of(features[rows]) for logits_of in self._maps(graphs)]
            result.append(mean_probabilities(logits))
        return torch.cat(result)[self.targets]

    def _passes(self, graphs: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return graphs int64 [g] for one pass each, and the rows of their nodes int64 [k]."""
        parts = [graphs[part] for part in passes(self._sizes()[graphs])]
        return [(part, torch.isin(self.owners, part).nonzero().squeeze(1)) for part in parts]

    def _sizes(self) -> Tensor:
        """Return nodes plus directed edges of each graph, int64 [G]."""
        batch, count = self.attacked.batch, self.clean.y.numel()
        edges = torch.bincount(batch[self.attacked.edge_index[0]], minlength=count)
        return edges + torch.bincount(batch, minlength=count)

    def _values_for(
        self, graphs: Tensor, rows: Tensor, settings: FeatureSearchSettings
    ) -> Callable[[Tensor], ValuesOfFeatures]:
        """Return `values_for` of `maximise_each` for these graphs, with these rows of features."""
        objective = _row_objective(settings.objective)
        of_nodes = None
        if settings.harmony:
            of_nodes = homophily_of_nodes(self.clean, self.links, self.owners.numel())
        every = self.clean.x.new_zeros((self.owners.numel(), self.clean.x.shape[1]))

        def values_for(some: Tensor) -> ValuesOfFeatures:
            now = graphs[some.to(graphs.device)]
            maps, labels = self._maps(now), self.clean.y[now]
            position = rows[torch.isin(self.owners[rows], now)]
            number = torch.searchsorted(now, self.owners[position])
            sizes = torch.bincount(number, minlength=now.numel())

            def values(features: Tensor) -> Tensor:
                result = [objective(logits_of(features), labels) for logits_of in maps]
                total = torch.stack(result).mean(0)
                if of_nodes is None:
                    return total
                similar = of_nodes(every.index_copy(0, position, features))[position]
                means = torch.zeros_like(total).index_add(0, number, similar) / sizes
                return total + settings.harmony * means

            return values

        return values_for

    def _maps(self, graphs: Tensor) -> list[LogitsOfFeatures]:
        """Return each member's map from features of these graphs' nodes to logits [g, c].

        Args:
            graphs: int64 [g], ascending.
        """
        whole = self.attacked
        chosen = torch.zeros_like(self.clean.y, dtype=torch.bool)
        chosen[graphs] = True
        node_mask = chosen[whole.batch]
        number = node_mask.cumsum(0) - 1
        edges = number[whole.edge_index[:, node_mask[whole.edge_index[0]]]]
        x, nodes = whole.x[node_mask], whole.clean_nodes[node_mask]
        batch = (chosen.cumsum(0) - 1)[whole.batch[node_mask]]
        # Injected nodes lie in the union by graph, and in the order of their rows in each.
        rows = torch.isin(self.owners, graphs).nonzero().squeeze(1)
        positions = torch.empty_like(rows)
        positions[self.owners[rows].argsort(stable=True)] = (nodes < 0).nonzero().squeeze(1)

        def logits_with(model: DifferentiableModel) -> LogitsOfFeatures:
            return lambda features: model(x.index_copy(0, positions, features), edges)

        return [logits_with(member.on_graphs(batch, nodes)) for member in self.members]


def _row_objective(name: str) -> RowObjective:
    """Return the objective of each graph alone, from logits [g, c] and labels [g] to [g]."""
    return margins_of if name in FLAT else row_objective(name)


def _highest(settings: FeatureSearchSettings) -> float:
    """Return the value at which the search for a graph ends."""
    return ENOUGH if settings.objective in FLAT and not settings.harmony else math.inf
