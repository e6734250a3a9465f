"""What has been flipped so far in each of many graphs, and what that has come to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grb_check.attacks.edges.removable import removable, shortfall
from grb_check.attacks.graph_sets.graph_list import GraphList, counts, nothing
from grb_check.attacks.graph_sets.promising import Search
from grb_check.attacks.graph_sets.standings import Standing, standing_of
from grb_check.attacks.threat import Perturbation


@dataclass(frozen=True, eq=False)
class Made:
    """Flips of V graphs.

    Attributes:
        owners: int64 [V], which graphs.
        flips: int64 [V, B].
        standing: under these flips.
    """

    owners: Tensor
    flips: Tensor
    standing: Standing

    @property
    def held(self) -> Tensor:
        """bool [V]."""
        return self.standing.held

    def at(self, rows: Tensor) -> Made:
        """Of some of the graphs, int64 [m] or bool [V]."""
        return Made(self.owners[rows], self.flips[rows], self.standing.at(rows))

    def better_of(self, other: Made) -> Made:
        """Of each graph the other's flips where they are stronger."""
        chosen = other.standing.beats(self.standing)
        return Made(
            self.owners,
            torch.where(chosen[:, None], other.flips, self.flips),
            other.standing.where(chosen, self.standing),
        )

    def with_rows(self, rows: Tensor, other: Made) -> Made:
        """With the other's flips in these rows int64 [m] or bool [V]."""
        flips, held, margin = self.flips.clone(), self.held.clone(), self.standing.margin.clone()
        flips[rows], held[rows] = other.flips, other.held
        margin[rows] = other.standing.margin
        return Made(self.owners, flips, Standing(held, margin))


def made_of(search: Search, owners: Tensor, flips: Tensor) -> Made:
    """Flips int64 [V, B] of graphs int64 [V], as a forward pass finds them."""
    return Made(owners, flips, standing_of(search.graphs, owners, flips))


def nothing_made(search: Search) -> Made:
    """The graphs that can be attacked, as they are."""
    owners = search.graphs.attackable()
    budgets = search.graphs.budgets[owners]
    width = int(budgets.minimum(search.graphs.pair_counts[owners]).max()) if owners.numel() else 0
    return made_of(search, owners, nothing(owners.numel(), width, owners))


def room_of(graphs: GraphList, made: Made) -> Tensor:
    """int64 [V], flips that each graph has left, as far as there are pairs."""
    budgets = graphs.budgets[made.owners].minimum(graphs.pair_counts[made.owners])
    return budgets - counts(made.flips)


def permitted(search: Search, owners: Tensor, flips: Tensor) -> Tensor:
    """Flips [V, B] without those removals that would isolate a node, where that may not be.

    Of several at a node the first in the row stay.
    """
    if search.isolate or not flips.numel():
        return flips
    copies = search.graphs.copies(owners, nothing(owners.numel(), 0, owners))
    given, pairs = copies.pairs(flips)
    removed = copies.clean.has(copies.clean.encode(pairs))
    ends, degrees = pairs[:, removed].cpu(), copies.clean.degrees().cpu()
    stays = ~removable(ends, degrees, isolate=False).to(flips.device)
    kept = flips[given]
    kept[removed.nonzero().squeeze(1)[stays]] = -1
    kept = flips.masked_scatter(given, kept)
    return kept.gather(1, (kept < 0).to(torch.int8).argsort(dim=1, stable=True))


def perturbation_of(graphs: GraphList, owners: Tensor, flips: Tensor) -> Perturbation:
    """What flips [V, B] of graphs [V] are in the numbers of all nodes; says what is left over."""
    given = flips >= 0
    own = owners[given.nonzero()[:, 0]]
    codes, sizes = flips[given], graphs.sizes[own]
    pairs = torch.stack([codes // sizes, codes % sizes]) + graphs.starts[own]
    used, allowed = int(given.sum()), int(graphs.budgets.sum())
    reason = "no other one keeps a graph lost or makes it so"
    notes = shortfall(used, allowed, reason)
    return graphs.edges.perturbation(graphs.edges.encode(pairs), notes)


def no_flips(graphs: GraphList) -> Perturbation:
    """Where no graph can be attacked."""
    none = graphs.attackable()[:0]
    return perturbation_of(graphs, none, nothing(0, 0, none))
