"""PGD on the topology of sets of graphs."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.graph_list import graph_list
from grb_check.attacks.graph_sets.hashed_draws import new_salt
from grb_check.attacks.graph_sets.made_flips import no_flips, perturbation_of
from grb_check.attacks.graph_sets.promising import Search, search_of
from grb_check.attacks.graph_sets.relaxed_flips import RelaxedRows, Widen
from grb_check.attacks.graph_sets.rounded_flips import relaxed_search
from grb_check.attacks.graph_sets.standings import values_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat

REACH: Final = 8  # pairs of weight 0 that are given a gradient, for each of the budget ...
LEAST: Final = 32  # ... and at least
RENEWED: Final = 10  # iterations after which these are chosen anew


def descent_in_each(
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
    *,
    iterations: int,
    step_size: float,
    block_size: int,
    samples: int,
    objective: str,
    isolate: bool,
) -> Perturbation:
    """Relaxed flips of all pairs of each graph, all graphs at once; settings as of the attack.

    Pairs of weight 0 which are far from a gain stay at 0, so that gradients are wanted at those
    above 0 and at the best others, half additions and half removals; which they are is found among
    all pairs every `RENEWED` steps, with the weights as they are.
    """
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
    made = relaxed_search(
        search,
        _best_others(search),
        iterations=iterations,
        every=RENEWED,
        step_size=step_size,
        samples=samples,
        salt=new_salt(generator),
    )
    return perturbation_of(graphs, made.owners, made.flips)


def _best_others(search: Search) -> Widen:
    """The pairs of largest gain at these weights."""

    def widen(owners: Tensor, relaxed: RelaxedRows) -> Tensor:
        reach = (REACH * search.graphs.budgets[owners]).clamp(min=LEAST)
        count = int(reach.max()) // 2
        ranked = search.source(owners, relaxed.codes, count, relaxed.weights).in_turn()
        place = torch.arange(ranked.shape[1], device=ranked.device)
        return ranked.masked_fill(place >= reach[:, None], -1)

    return widen
