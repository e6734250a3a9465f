"""Graphs with flips made in them, and what the model predicts for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grb_check.attacks.edges.removable import removable
from grb_check.attacks.graph_sets.flip_sources import Search, row_objective
from grb_check.attacks.graph_sets.graph_list import GraphList, count_flips, no_flips, packed
from grb_check.attacks.graph_sets.rounding_step import quantised


@dataclass(frozen=True, eq=False)
class FlippedGraphs:
    """V graphs with flips made in them, and what the model predicts for them.

    Attributes:
        owners: int64 [V], which graphs of the `GraphList`.
        flips: int64 [V, B].
        held: bool [V], whether a graph is still classified as labelled.
        margin: float [V], largest logit of another class minus that of the label. It is rounded, so
            that flips which are equivalent by symmetry have equal margins.
    """

    owners: Tensor
    flips: Tensor
    held: Tensor
    margin: Tensor

    def beats(self, other: FlippedGraphs) -> Tensor:
        """Whether a graph is misclassified here only, or likewise with a higher margin, bool [V].

        This decides in the end, whatever objective the gradients are of.
        """
        higher = (self.held == other.held) & (self.margin > other.margin)
        return (~self.held & other.held) | higher

    def at(self, rows: Tensor) -> FlippedGraphs:
        """Return some of the graphs, by index int64 [m] or mask bool [V]."""
        return FlippedGraphs(
            self.owners[rows], self.flips[rows], self.held[rows], self.margin[rows]
        )

    def where(self, chosen: Tensor, other: FlippedGraphs) -> FlippedGraphs:
        """Return these flips for the chosen graphs bool [V], the other's for the rest."""
        return FlippedGraphs(
            self.owners,
            torch.where(chosen[:, None], self.flips, other.flips),
            torch.where(chosen, self.held, other.held),
            torch.where(chosen, self.margin, other.margin),
        )

    def better_of(self, other: FlippedGraphs) -> FlippedGraphs:
        """Return the stronger flips for each graph, these if they are equally strong."""
        return other.where(other.beats(self), self)

    def with_rows(self, rows: Tensor, other: FlippedGraphs) -> FlippedGraphs:
        """Return these graphs with the other's flips in these rows, int64 [m] or bool [V]."""
        flips, held, margin = self.flips.clone(), self.held.clone(), self.margin.clone()
        flips[rows], held[rows], margin[rows] = other.flips, other.held, other.margin
        return FlippedGraphs(self.owners, flips, held, margin)


def flip_graphs(search: Search, owners: Tensor, flips: Tensor) -> FlippedGraphs:
    """Make flips int64 [V, B] in graphs int64 [V], and predict them in a forward pass."""
    graphs = search.graphs
    if not owners.numel():
        return FlippedGraphs(owners, flips, owners > 0, graphs.x.new_empty(0))
    logits, labels = graphs.logits(owners, flips), graphs.labels[owners]
    margin = quantised(row_objective("margin")(logits, labels), logits.abs().amax(1))
    return FlippedGraphs(owners, flips, logits.argmax(1) == labels, margin)


def unflipped(search: Search) -> FlippedGraphs:
    """Return the graphs that can be attacked, without flips."""
    owners = search.graphs.attackable()
    budgets = search.graphs.budgets[owners]
    width = int(budgets.minimum(search.graphs.pair_counts[owners]).max()) if owners.numel() else 0
    return flip_graphs(search, owners, no_flips(owners.numel(), width, owners))


def flips_left(graphs: GraphList, made: FlippedGraphs) -> Tensor:
    """Return how many flips each graph has left, at most as many as it has pairs, int64 [V]."""
    budgets = graphs.budgets[made.owners].minimum(graphs.pair_counts[made.owners])
    return budgets - count_flips(made.flips)


def without_isolating(search: Search, owners: Tensor, flips: Tensor) -> Tensor:
    """Return flips [V, B] without removals that would isolate a node, if that is not allowed.

    Of several removals at a node the first ones in the row are kept.
    """
    if search.isolate or not flips.numel():
        return flips
    copies = search.graphs.copies(owners)
    given, pairs = copies.pairs(flips)
    removed = copies.clean.has(copies.clean.encode(pairs))
    ends, degrees = pairs[:, removed].cpu(), copies.clean.degrees().cpu()
    stays = ~removable(ends, degrees, isolate=False).to(flips.device)
    kept = flips[given]
    kept[removed.nonzero().squeeze(1)[stays]] = -1
    return packed(flips.masked_scatter(given, kept))
