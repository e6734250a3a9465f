"""Injected nodes with their links: the search for features, next to targets or inside graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.injected_graphs import nodes_in_graphs
from grb_check.attacks.links.feature_search import (
    FeatureSearchSettings,
    LogitsOfFeatures,
    best_features,
    logits_of_features,
)
from grb_check.attacks.links.steps import Step
from grb_check.attacks.links.weak_targets import mean_probabilities
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Threat


class PlacedNodes(Protocol):
    """Injected nodes with fixed links, whose features are searched for."""

    def best_features(
        self,
        start: Tensor,
        step: Step,
        settings: FeatureSearchSettings,
        moves: Tensor | None = None,
    ) -> Tensor:
        """Return the best features float32 [n, d] that gradient ascent finds.

        Args:
            start: float [n, d], within the domain of features.
            step: see `feature_search.maximise`.
            settings: of the attack.
            moves: bool [n], which nodes' features may change; all if not given.
        """
        ...

    def probabilities(self, features: Tensor) -> Tensor:
        """Return the targets' class probabilities [t, c] with these features, mean over members."""
        ...


def placed_nodes(
    graph: Data, links: Tensor, threat: Threat, model: DifferentiableModel, owners: Tensor
) -> PlacedNodes:
    """Return injected nodes with these links.

    Args:
        graph: clean graph, or graphs side by side; `y` holds the labels to move targets away from.
        links: `injected_edges` [2, e].
        threat: gives the targets.
        model: the objective is averaged over its members.
        owners: int64 [n], the group of each node, see `sites.Sites`.
    """
    if threat.batch is not None:
        return nodes_in_graphs(graph, links, threat, model, owners)
    maps = logits_of_features(graph, links, threat, model, owners.numel())
    return _AtTargets(graph, links, threat, maps)


@dataclass(frozen=True, eq=False)
class _AtTargets:
    graph: Data
    links: Tensor
    threat: Threat
    maps: Sequence[LogitsOfFeatures]

    def best_features(
        self,
        start: Tensor,
        step: Step,
        settings: FeatureSearchSettings,
        moves: Tensor | None = None,
    ) -> Tensor:
        return best_features(
            self.graph, self.links, self.threat, self.maps, start, step, settings, moves
        )

    def probabilities(self, features: Tensor) -> Tensor:
        with torch.no_grad():
            return mean_probabilities([logits_of(features) for logits_of in self.maps])
