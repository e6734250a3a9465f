"""Greedy flips in steps, and the exchange of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_sources import Aim, FlipSource
from grb_check.attacks.modification.shared.removable import within_capacity

RANKED: Final = 100  # candidates for each flip that is made
MOST_DOUBLED: Final = 40  # 2^40 exceeds any number of nodes


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """The fixed part of a search for flips.

    Attributes:
        clean: the edges before any flip.
        source: of candidate flips.
        isolate: whether a node may lose its last edge.
        room: int64 [N], most flips at each node; None for no such bound.
    """

    clean: EdgeSet
    source: FlipSource
    isolate: bool
    room: Tensor | None = None

    def room_beside(self, flips: Tensor) -> Tensor | None:
        """Return how many flips each node has room for beside these codes [m], int64 [N]."""
        if self.room is None:
            return None
        return self.room - torch.bincount(
            self.clean.ends(flips).flatten(), minlength=self.clean.num_nodes
        )

    def within_room(self, codes: Tensor) -> Tensor:
        """Return the codes [m] for which the nodes have room if they are taken in this order."""
        if self.room is None:
            return codes
        return codes[
            within_capacity(self.clean.ends(codes).cpu(), self.room.cpu()).to(codes.device)
        ]


def greedy_flips(space: SearchSpace, flips: Tensor, count: int, steps: int) -> Tensor:
    """Return codes [m + count] of the flips `flips` [m] and `count` more, those of largest gain.

    In each of `steps` steps no node gets two flips: to first order the second one counts in full,
    while in fact the first has often had the whole effect. Later steps make up for flips that a
    step is short of. If flips are still missing after all steps, more steps follow in which a node
    may get 2, 4, 8, ... flips. Fewer flips are returned if no other one has a gain.
    """
    total, step = flips.numel() + count, 0
    while flips.numel() < total:
        step += 1
        # What is missing but for the equal shares of the steps to come.
        requested = max(1, total - flips.numel() - count * max(0, steps - step) // steps)
        chosen = _best_apart(
            space, flips, requested, at_a_node=2 ** min(MOST_DOUBLED, max(0, step - steps))
        )
        if not chosen.numel():
            break
        flips = torch.cat([flips, chosen])
    return flips


def exchange_flips(
    space: SearchSpace,
    aim: Aim,
    flips: Tensor,
    rounds: int,
    share: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the flips [m] after `rounds` in which a random share of them is replaced.

    Later greedy flips may make earlier ones useless. Each round takes back a share of the flips and
    chooses as many for the graph as it is then. The result is kept if fewer targets are classified
    as labelled (or as many, with a higher objective).
    """
    total = flips.numel()
    if not total:
        return flips
    count = max(1, round(share * total))
    best = held_targets(space, aim, flips)
    for _ in range(rounds):
        keep = torch.randperm(flips.numel(), generator=generator)[count:].to(flips.device)
        tried = greedy_flips(space, flips[keep], total - keep.numel(), 1)
        reached = held_targets(space, aim, tried)
        if reached < best:
            flips, best = tried, reached
    return flips


def held_targets(space: SearchSpace, aim: Aim, flips: Tensor) -> tuple[int, float]:
    """Return the number of targets still classified as labelled, and minus the objective.

    Lower is stronger.
    """
    with torch.no_grad():
        logits = aim.model(aim.x, space.clean.flipped(flips).edge_index())[aim.targets]
        held = int((logits.argmax(1) == aim.labels).sum())
        return held, -float(aim.value(logits))


def _best_apart(space: SearchSpace, flips: Tensor, requested: int, *, at_a_node: int) -> Tensor:
    """Return codes of at most `requested` flips with a gain, at most `at_a_node` at each node."""
    edges = space.clean.flipped(flips)
    forbidden = flips if space.isolate else torch.cat([flips, last_edges(space.clean, edges)])
    left = space.room_beside(flips)
    ranked = space.source(edges, forbidden, RANKED * requested, None if left is None else left > 0)
    # The second of two removals at a node might take its last edge.
    room = torch.full((edges.num_nodes,), at_a_node if space.isolate else 1)
    room = room if left is None else room.minimum(left.cpu())
    codes = ranked.codes[ranked.gains > 0]
    return codes[within_capacity(edges.ends(codes).cpu(), room).to(codes.device)][:requested]


def last_edges(clean: EdgeSet, edges: EdgeSet) -> Tensor:
    """Return codes of the clean edges that are the only ones left at some node.

    Added edges do not count: an exchange may take them back.
    """
    left = EdgeSet(clean.codes[edges.has(clean.codes)], clean.num_nodes)
    last = (left.degrees() < 2)[left.ends(left.codes)].any(0)
    return left.codes[last]
