"""Block flips: projection onto budgets at nodes, steps, and rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_sources import Aim, weighted_logits
from grb_check.attacks.modification.shared.flip_weights import (
    NEGLIGIBLE,
    gains_of_flips,
    project,
    stepped,
)
from grb_check.attacks.modification.shared.greedy import SearchSpace, greedy_flips, held_targets
from grb_check.attacks.modification.shared.removable import removable

GREEDY_STEPS: Final = 20
BISECTIONS: Final = 40


@dataclass(frozen=True, eq=False)
class Block:
    """A block of pairs with the weights of their flips; all other pairs have weight 0.

    The search space of Geisler et al. 2021, algorithm 1: indices i_t and weights p_t.

    Attributes:
        codes: int64 [m], distinct.
        weights: float [m], 0 to 1: how much each is flipped.
    """

    codes: Tensor
    weights: Tensor

    def without_negligible(self) -> Block:
        """Return the flips of noticeable weight."""
        noticeable = self.weights > NEGLIGIBLE
        return Block(self.codes[noticeable], self.weights[noticeable])

    def largest(self, count: int) -> Tensor:
        """Return codes of the `count` flips of largest weight, without those of weight 0."""
        order = self.weights.argsort(descending=True, stable=True)[:count]
        return self.codes[order[self.weights[order] > 0]]

    def joined(self, codes: Tensor) -> Block:
        """Return the flips with other pairs added at weight 0; existing ones keep their weight."""
        new = codes[~torch.isin(codes, self.codes)]
        zeros = self.weights.new_zeros(new.numel())
        return Block(torch.cat([self.codes, new]), torch.cat([self.weights, zeros]))


def project_at_nodes(weights: Tensor, ends: Tensor, room: Tensor) -> Tensor:
    r"""Return weights [m] with :math:`0 \le p_k \le 1` and at each node a sum of at most its room.

    At each node whose sum is larger, the weights of all its pairs are lowered by the same amount,
    found by bisection; a pair whose ends ask for two amounts is lowered by the larger one. The
    result satisfies all bounds; it is the projection wherever no pair has two such ends.

    Args:
        weights: float [m].
        ends: int64 [2, m].
        room: int64 [N].
    """
    clipped = weights.clamp(0, 1)
    positions, both = ends.flatten(), weights.repeat(2)

    def sums(lowered: Tensor) -> Tensor:
        return torch.zeros_like(room, dtype=weights.dtype).index_add(0, positions, lowered)

    over = sums(clipped.repeat(2)) > room
    if not bool(over.any()):
        return clipped
    low = torch.zeros_like(room, dtype=weights.dtype)
    high = torch.where(over, weights.max(), 0.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = sums((both - middle[positions]).clamp(0, 1)) > room
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (weights - high[ends].amax(0)).clamp(0, 1)


def ascend(
    block: Block, gains: Tensor, space: SearchSpace, budget: int, step_size: float, step: int
) -> Block:
    """Take one projected step along the gains [m] of flipping more, see `flip_weights.stepped`."""
    budgets = torch.tensor([budget], device=gains.device)
    # Algorithm 1, line 7: along the gradient.
    (weights,) = stepped(block.weights[None], gains[None], budgets, step_size, step)
    # Algorithm 1, line 8: onto the budgets; those at nodes are not in the paper.
    if space.room is not None:
        weights = project_at_nodes(weights, space.clean.ends(block.codes), space.room)
    return Block(block.codes, project(weights[None], budgets)[0])


def rounded(
    block: Block,
    space: SearchSpace,
    aim: Aim,
    budget: int,
    samples: int,
    generator: torch.Generator,
) -> Tensor:
    """Return codes of the strongest of several roundings.

    These are the largest weights; random draws, which take each flip with its weight as probability
    (Xu et al. 2019, algorithm 1; Geisler et al. 2021, algorithm 1), only the largest ones if there
    are too many; and the flips of weight above 0.5, with the rest of the budget spent greedily on
    the graph as it is then (our choice: many weights end far from 0 and 1, because each of several
    flips would do, and the other roundings take too many of these or none). Of a budget as small as
    `GREEDY_STEPS` also flips chosen greedily without any weights: what a part of a flip does may be
    far from what the flip does.
    """
    sure = _largest(Block(block.codes, (block.weights - 0.5).clamp(min=0)), space, budget)
    sure = _allowed(sure, space)
    completed = greedy_flips(space, sure, budget - sure.numel(), GREEDY_STEPS)
    candidates = [completed, _largest(block, space, budget)]
    if sure.numel() and budget <= GREEDY_STEPS:
        candidates.append(greedy_flips(space, sure[:0], budget, GREEDY_STEPS))
    for _ in range(samples):  # algorithm 1, line 16
        drawn = torch.rand(block.codes.numel(), generator=generator).to(block.weights)
        taken = drawn < block.weights
        some = Block(block.codes[taken], block.weights[taken])
        candidates.append(_largest(some, space, budget))
    allowed = [_allowed(candidate, space) for candidate in candidates]
    return min(allowed, key=lambda flips: held_targets(space, aim, flips))


def _largest(block: Block, space: SearchSpace, budget: int) -> Tensor:
    """Return codes of at most `budget` flips, the largest for which all nodes have room."""
    return space.within_room(block.largest(block.codes.numel()))[:budget]


def _allowed(flips: Tensor, space: SearchSpace) -> Tensor:
    """Return the flips without removals that would isolate a node, if that is not allowed."""
    if space.isolate:
        return flips
    present = space.clean.has(flips)
    removed = flips[present]
    ends = space.clean.ends(removed).cpu()
    is_allowed = removable(ends, space.clean.degrees().cpu(), isolate=False).to(flips.device)
    return torch.cat([flips[~present], removed[is_allowed]])


def gains_of(block: Block, clean: EdgeSet, aim: Aim) -> Callable[[Tensor], Tensor]:
    """Return the map from weights [m] of these flips to the gains [m] of flipping more.

    Raises:
        GradientError: the model has no gradient for edges.
    """
    logits_of = weighted_logits(aim, clean, block.codes)
    present = clean.has(block.codes)
    return partial(gains_of_flips, lambda weights: aim.value(logits_of(weights)), present)
