"""Graphs side by side with nodes injected into each, and the search for these nodes' features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.flip_sources import RowObjective, row_objective
from grb_check.attacks.graph_sets.graph_list import GraphModel, passes
from grb_check.attacks.links.best_columns import best_columns
from grb_check.attacks.links.domains import domain_of
from grb_check.attacks.links.feature_search import (
    FeatureSearchSettings,
    LogitsOfFeatures,
    ValuesOfFeatures,
    maximise_each,
)
from grb_check.attacks.links.harmony import homophily_of_nodes
from grb_check.attacks.links.steps import Step
from grb_check.attacks.links.weak_targets import mean_probabilities
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Perturbation, Threat, apply

# With a single target these rise and fall with its margin, but are flat where that is large.
FLAT: Final = ("tanh_margin", "held_margin", "probability_margin", "clipped_likelihood")
ENOUGH: Final = 4.0  # the margin, in nats, at which a graph is left


def model_on(model: DifferentiableModel, graph: Data) -> DifferentiableModel:
    """Return a model of graphs for a graph that `apply` returned, with nodes injected or not."""
    if "clean_nodes" not in graph:
        return model
    return cast(GraphModel, model).on_graphs(graph.batch, graph.clean_nodes)


def nodes_in_graphs(
    graph: Data, links: Tensor, threat: Threat, model: DifferentiableModel, owners: Tensor
) -> NodesInGraphs:
    """Return injected nodes with their links; see `placed_nodes.placed_nodes`."""
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
    """Graphs with injected nodes, which have no features yet.

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
        """Return the best features float32 [n, d]; each graph has its own ascent.

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
            found = maximise_each(
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
                found = best_columns(
                    values_for,
                    self.rounded(found),
                    owners,
                    count=count,
                    highest=highest,
                    moves=may_move,
                )
            best[rows] = found
        return best

    def probabilities(self, features: Tensor) -> Tensor:
        """Return class probabilities [t, c] of the targets, mean over members."""
        found: list[Tensor] = []
        every = torch.arange(self.clean.y.numel(), device=self.owners.device)
        for graphs, rows in self._passes(every):
            with torch.no_grad():
                logits = [logits_of(features[rows]) for logits_of in self._maps(graphs)]
            found.append(mean_probabilities(logits))
        return torch.cat(found)[self.targets]

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
            place = rows[torch.isin(self.owners[rows], now)]
            number = torch.searchsorted(now, self.owners[place])
            sizes = torch.bincount(number, minlength=now.numel())

            def values(features: Tensor) -> Tensor:
                found = [objective(logits_of(features), labels) for logits_of in maps]
                total = torch.stack(found).mean(0)
                if of_nodes is None:
                    return total
                similar = of_nodes(every.index_copy(0, place, features))[place]
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
        kept = chosen[whole.batch]
        number = kept.cumsum(0) - 1
        edges = number[whole.edge_index[:, kept[whole.edge_index[0]]]]
        x, nodes = whole.x[kept], whole.clean_nodes[kept]
        batch = (chosen.cumsum(0) - 1)[whole.batch[kept]]
        # Injected nodes lie in the union by graph, and in the order of their rows in each.
        rows = torch.isin(self.owners, graphs).nonzero().squeeze(1)
        places = torch.empty_like(rows)
        places[self.owners[rows].argsort(stable=True)] = (nodes < 0).nonzero().squeeze(1)

        def logits_with(model: DifferentiableModel) -> LogitsOfFeatures:
            return lambda features: model(x.index_copy(0, places, features), edges)

        return [logits_with(member.on_graphs(batch, nodes)) for member in self.members]


def _row_objective(name: str) -> RowObjective:
    """Return the objective of each graph alone, from logits [g, c] and labels [g] to [g]."""
    return margins_of if name in FLAT else row_objective(name)


def _highest(settings: FeatureSearchSettings) -> float:
    """Return the value at which the search for a graph ends."""
    return ENOUGH if settings.objective in FLAT and not settings.harmony else math.inf
