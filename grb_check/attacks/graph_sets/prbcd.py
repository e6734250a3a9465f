"""PR-BCD on sets of graphs."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.graph_list import graph_list
from grb_check.attacks.graph_sets.hashed_draws import new_salt, uniform
from grb_check.attacks.graph_sets.made_flips import no_flips, perturbation_of
from grb_check.attacks.graph_sets.promising import Search, search_of
from grb_check.attacks.graph_sets.relaxed_flips import RelaxedRows, Widen, without
from grb_check.attacks.graph_sets.rounded_flips import relaxed_search
from grb_check.attacks.graph_sets.standings import values_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat

BLOCK: Final = 32  # pairs of a graph at least ...
BUDGETS: Final = 4  # ... and so many for each flip that it may get
PROMISING: Final = 4  # pairs that a block is drawn from for each that it takes


def blocks_in_each(
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
    *,
    iterations: int,
    step_size: float,
    block_size: int,
    renew_every: int,
    samples: int,
    objective: str,
    isolate: bool,
) -> Perturbation:
    """Relaxed flips in a block of pairs of each graph, all graphs at once; settings of the attack.

    A block has `BUDGETS` pairs for each flip of its graph's budget, at least `BLOCK` and at most
    `block_size`; as many removals as additions are put into it, see `RankedKinds`.
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
        _renewed_blocks(search, block_size, new_salt(generator)),
        iterations=iterations,
        every=renew_every,
        step_size=step_size,
        samples=samples,
        salt=new_salt(generator),
    )
    return perturbation_of(graphs, made.owners, made.flips)


def _renewed_blocks(search: Search, block_size: int, salt: int) -> Widen:
    """Random ones of the pairs that are promising on the graphs as they are rounded by then."""

    def widen(owners: Tensor, relaxed: RelaxedRows) -> Tensor:
        budgets = search.graphs.budgets[owners]
        flips = relaxed.largest(budgets, int(budgets.max()))
        sizes = (BUDGETS * budgets).clamp(min=BLOCK, max=block_size).maximum(2 * budgets)
        room = (sizes - (relaxed.codes >= 0).sum(1)).clamp(min=0)
        ranked = search.source(owners, flips, PROMISING * int(sizes.max()) // 2).in_turn()
        place = torch.arange(ranked.shape[1], device=ranked.device)
        ranked = ranked.masked_fill(place >= PROMISING * room[:, None], -1)
        ranked = without(ranked, relaxed.codes)
        draw = uniform(salt, owners[:, None], ranked, (relaxed.codes + 2).sum(1, keepdim=True))
        order = draw.masked_fill(ranked < 0, 2.0).argsort(dim=1, stable=True)
        chosen = ranked.gather(1, order)[:, : int(sizes.max())]
        return chosen.masked_fill(place[: chosen.shape[1]] >= room[:, None], -1)

    return widen
