"""How far an attack on each of many graphs has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from grb_check.attacks.edges.rounding_step import quantised
from grb_check.attacks.graph_sets.graph_list import GraphList
from grb_check.attacks.objectives import objective_named

RowValues = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Standing:
    """Of each of V graphs, by what counts in the end, whatever objective gradients are taken of.

    Attributes:
        held: bool [V], whether it is still classified as labelled.
        margin: float [V], of the best other class over its own, without what is but rounding: flips
            that come to the same by symmetry are to be equal.
    """

    held: Tensor
    margin: Tensor

    def beats(self, other: Standing) -> Tensor:
        """bool [V]: lost where the other is held, or as the other with a higher margin."""
        higher = (self.held == other.held) & (self.margin > other.margin)
        return (~self.held & other.held) | higher

    def at(self, rows: Tensor) -> Standing:
        """Of some graphs."""
        return Standing(self.held[rows], self.margin[rows])

    def where(self, chosen: Tensor, other: Standing) -> Standing:
        """The other's where not chosen, bool [V]."""
        return Standing(
            torch.where(chosen, self.held, other.held),
            torch.where(chosen, self.margin, other.margin),
        )


def values_of(name: str) -> RowValues:
    """The objective of that name for each graph by itself: logits [V, c], labels [V] to [V].

    `held_margin` is the margin: a single target's own margin is what it would be scaled by, so that
    its gradient has the direction of the margin's; and where a graph is lost already, what is left
    of its budget goes on with that.
    """
    objective = objective_named("margin" if name == "held_margin" else name)
    by_row = torch.func.vmap(lambda row, label: objective(row[None], label[None]))
    return lambda logits, labels: by_row(logits, labels)


def standing_of(graphs: GraphList, owners: Tensor, flips: Tensor) -> Standing:
    """Of copies of graphs int64 [V] with flips int64 [V, B] made; no gradient."""
    logits, labels = graphs.logits(owners, flips), graphs.labels[owners]
    if not owners.numel():
        return Standing(owners > 0, graphs.x.new_empty(0))
    margin = quantised(values_of("margin")(logits, labels), logits.abs().amax(1))
    return Standing(logits.argmax(1) == labels, margin)
