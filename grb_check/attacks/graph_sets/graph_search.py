"""Searches for flips in all graphs of a set at once, each within its own budget."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch_geometric.data import Data

from grb_check.attacks.edges.edge_search import EdgeSearchSettings
from grb_check.attacks.edges.edge_set import shortfall
from grb_check.attacks.graph_sets.candidate_flips import Search, row_objective, search_of
from grb_check.attacks.graph_sets.graph_list import graph_list, no_flips
from grb_check.attacks.graph_sets.greedy_flips import FlippedGraphs
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat


def search_graphs(
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
    settings: EdgeSearchSettings,
    find: Callable[[Search, torch.Generator], FlippedGraphs],
) -> Perturbation:
    """Return the flips that a search finds in each graph, with a note on unused budget.

    Args:
        graph: graphs side by side.
        threat: with `batch` and `edge_budgets`.
        settings: of the attack.
        find: the search, called only if some graph can be attacked.
    """
    graphs = graph_list(graph, threat, model)
    owners = graphs.attackable()
    flips = no_flips(0, 0, owners)
    if owners.numel():
        search = search_of(
            graphs,
            row_objective(settings.objective),
            isolate=settings.isolate,
            block_size=settings.block_size,
            generator=generator,
        )
        found = find(search, generator)
        owners, flips = found.owners, found.flips
    given = flips >= 0
    own = owners[given.nonzero()[:, 0]]
    codes, sizes = flips[given], graphs.sizes[own]
    pairs = torch.stack([codes // sizes, codes % sizes]) + graphs.starts[own]
    reason = "no other flip makes or keeps a graph misclassified"
    notes = shortfall(int(given.sum()), int(graphs.budgets.sum()), reason)
    if getattr(settings, "polish", 0):
        notes = (*notes, "not polished, because the targets are graphs")
    return graphs.edges.perturbation(graphs.edges.encode(pairs), notes)
