"""Injected nodes with random links, whose features ascend by gradient: what FGSM and PGD share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.domains import Domain, domain_of
from grb_check.attacks.injection.shared.feature_search import FeatureSearchSettings, Place
from grb_check.attacks.injection.shared.links import random_links, sites_of
from grb_check.attacks.injection.shared.steps import Step
from grb_check.attacks.threat import Perturbation, Threat


def random_ascent(
    graph: Data,
    threat: Threat,
    place: Place,
    settings: FeatureSearchSettings,
    start_of: Callable[[Domain, Tensor, int], Tensor],
    step_of: Callable[[Domain], Step],
    generator: torch.Generator,
) -> Perturbation:
    """Link at random, then find features with the model's gradient.

    Args:
        graph: as the attack is shown it.
        threat: what may be injected.
        place: how nodes are injected.
        settings: of the attack.
        start_of: from the domain of features, x float [N, d] and the number n of injected nodes to
            the features float [n, d] to start from.
        step_of: from the domain of features to the step of the ascent.
        generator: of the links.
    """
    links, notes = random_links(threat, generator)
    if not links.shape[1]:
        return Perturbation(notes=notes)
    sites, domain = sites_of(threat), domain_of(threat)
    start = start_of(domain, graph.x, sites.count)
    placed = place(links, sites.owners)
    features = domain.rounded(placed.best_features(start, step_of(domain), settings))
    return Perturbation(
        injected_x=features.cpu(),
        injected_edges=links,
        injected_graphs=sites.graphs,
        notes=notes,
    )
