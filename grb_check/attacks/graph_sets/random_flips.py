"""Random flips in sets of graphs."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from grb_check.attacks.edges.edge_set import EdgeSet, edge_set
from grb_check.attacks.edges.removable import shortfall
from grb_check.attacks.edges.uniform_pairs import REASON, random_pairs
from grb_check.attacks.graph_sets.graph_list import each_budget
from grb_check.attacks.threat import Perturbation, Threat


def flips_in_each(
    graph: Data, threat: Threat, generator: torch.Generator, *, isolate: bool
) -> Perturbation:
    """Flips of pairs drawn uniformly from all pairs of each graph, as many as it may have."""
    whole = edge_set(graph)
    codes, num_nodes = whole.codes.cpu(), whole.num_nodes
    budgets, starts = (each.cpu() for each in each_budget(threat))
    found = [codes[:0]]
    bounds = torch.searchsorted(codes, starts * num_nodes).tolist()
    for index, (start, budget) in enumerate(zip(starts.tolist(), budgets.tolist(), strict=False)):
        size = int(starts[index + 1]) - start
        if not budget or size < 2:
            continue
        ends = whole.ends(codes[bounds[index] : bounds[index + 1]]) - start
        own = EdgeSet(ends[0] * size + ends[1], size)
        pairs = own.ends(random_pairs(own, budget, generator, isolate=isolate)) + start
        found.append(whole.encode(pairs))
    flips = torch.cat(found)
    every = EdgeSet(codes, num_nodes)
    return every.perturbation(flips, shortfall(flips.numel(), int(budgets.sum()), REASON))
