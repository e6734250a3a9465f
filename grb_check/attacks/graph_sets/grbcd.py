"""GR-BCD on sets of graphs."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.graph_list import graph_list
from grb_check.attacks.graph_sets.greedy_flips import (
    exchange_flips,
    greedy_flips,
    spend_the_rest,
)
from grb_check.attacks.graph_sets.hashed_draws import new_salt
from grb_check.attacks.graph_sets.made_flips import no_flips, nothing_made, perturbation_of
from grb_check.attacks.graph_sets.promising import search_of
from grb_check.attacks.graph_sets.standings import values_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat


def greedy_in_each(
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
    *,
    steps: int,
    exchanges: int,
    exchange_share: float,
    block_size: int,
    objective: str,
    isolate: bool,
) -> Perturbation:
    """Greedy flips in all graphs at once, each within its own budget; settings as of the attack."""
    graphs = graph_list(graph, threat, model)
    if not graphs.attackable().numel():
        return no_flips(graphs)
    search = search_of(
        graphs,
        values_of(objective),
        isolate=isolate,
        block_size=block_size,
        generator=generator,
    )
    clean = nothing_made(search)
    made = greedy_flips(search, clean, steps)
    made = exchange_flips(search, clean, made, exchanges, exchange_share, new_salt(generator))
    made = spend_the_rest(search, made)
    return perturbation_of(graphs, made.owners, made.flips)
