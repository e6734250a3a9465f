r"""Search for flips by a model's answers alone, many flips in each forward pass.

Each round tries many flips at once: additions and removals that may be made, and flips that may be
taken back, no two of them with a common end. One forward pass answers all. A target's change counts
for the flip that ends at it; that of any other target, in equal parts, for the flips with ends
among its neighbours. The flips of largest gain are made, and a second pass shows where that leads.

It is an estimate: targets also feel flips further away. But it costs a fraction of a pass for each
flip, where a search one by one costs a pass, and holds for any model.

The objective is a smooth count of right targets over their margins m (above 0: lost),

.. math:: E = \sum_t \sigma(-m_t / \tau),

with :math:`\tau` falling during the search: at first flips that bring many targets closer to the
boundary count, in the end only whether targets are right. The flips with the fewest right targets
met on the way are returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet, mask_of
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.user_code.randomness import isolated_randomness

# All our choices, on Cora, CiteSeer and a graph of 100,000 nodes:
SMOOTH: Final = 1.5  # tau at first, as a part of the median margin of the targets that are right
SHARP: Final = 0.05  # ... and in the end
FILLED: Final = 0.3  # part of the rounds in which the budget is spent; then flips are exchanged
AT_TARGETS: Final = 0.4  # share of the targets still right that additions of a round begin at
BETWEEN: Final = 0.5  # share of additions whose other end is such a target as well
REMOVALS: Final = 0.05  # edges that are tried, as a share of the additions
RETURNS: Final = 0.1  # share of the flips that may be taken back in a round
IDLE: Final = 20  # rounds without any effect, after which the search ends
LEAST_GAIN: Final = 1e-6  # of an exchange


@dataclass(frozen=True, eq=False)
class Question:
    """A model, its targets and the bounds of a search.

    Attributes:
        model: the model under attack.
        x: float [N, d].
        clean: the edges before any flip.
        targets: int64 [t], distinct, at least one.
        labels: int64 [t], to move away from.
        budget: most flips.
        isolate: whether a node may lose its last edge.
        room: int64 [N], most flips at each node; None for no such bound.
        ends: int64 [m], nodes of which every flip has one; None for any flip.
        seed: of the model's own randomness.
    """

    model: DifferentiableModel
    x: Tensor
    clean: EdgeSet
    targets: Tensor
    labels: Tensor
    budget: int
    isolate: bool = True
    room: Tensor | None = None
    ends: Tensor | None = None
    seed: int = 0

    def logits(self, flips: Tensor) -> Tensor:
        """Return the model's logits float [N, c] after flips, codes int64 [m]."""
        edges = self.clean.flipped(flips)
        with torch.no_grad(), isolated_randomness(self.seed):
            return self.model(self.x, edges.edge_index())

    def answer(self, flips: Tensor) -> Answer:
        """Return what the model makes of the targets after flips, codes int64 [m]."""
        logits = self.logits(flips)[self.targets]
        right = int((logits.argmax(1) == self.labels).sum())
        return Answer(flips, margins_of(logits, self.labels), right)

    def scale(self, margins: Tensor) -> float:
        """Return the median distance of targets that are right from the boundary."""
        held = -margins[margins < 0]
        return float(held.median()) if held.numel() else 1.0

    def left(self, flips: Tensor) -> Tensor:
        """Return how many more flips each node has room for, int64 [N]."""
        nodes = self.clean.num_nodes
        used = torch.bincount(self.clean.ends(flips).flatten(), minlength=nodes)
        return (torch.full_like(used, nodes) if self.room is None else self.room.to(used)) - used

    def at_ends(self, pairs: Tensor) -> Tensor:
        """Return which pairs [2, m] have a node of `ends`, bool [m]."""
        return self._owned[pairs].any(0)

    @cached_property
    def _owned(self) -> Tensor:
        """Which nodes are among `ends`, bool [N]."""
        nodes, device = self.clean.num_nodes, self.targets.device
        ends = torch.arange(nodes) if self.ends is None else self.ends
        return mask_of(ends, nodes).to(device)

    def possible(self, pairs: Tensor, flips: Tensor) -> Tensor:
        """Return the distinct codes of those pairs [2, m] that may be flipped beside `flips`."""
        allowed = (pairs[0] != pairs[1]) & (self.left(flips)[pairs] > 0).all(0)
        allowed &= self.at_ends(pairs)
        codes: Tensor = torch.unique(self.clean.encode(pairs[:, allowed]))
        codes = codes[~torch.isin(codes, flips)]
        return codes if self.isolate else codes[~torch.isin(codes, self.last_edges(flips))]

    def last_edges(self, flips: Tensor) -> Tensor:
        """Return codes of the clean edges that are the only ones left at some node."""
        remaining = self.clean.codes[~torch.isin(self.clean.codes, flips)]
        left = EdgeSet(remaining, self.clean.num_nodes)
        return remaining[(left.degrees() < 2)[left.ends(remaining)].any(0)]


def sweep(question: Question, flips: Tensor, rounds: int, generator: torch.Generator) -> Tensor:
    """Return the strongest flips met from given ones on: codes int64 [m], m at most the budget.

    Args:
        flips: distinct codes to begin with, at most the budget; the result is no weaker.
        rounds: of two forward passes each.
        generator: the source of randomness.
    """
    tau = SMOOTH * question.scale(question.answer(flips[:0]).margins)
    best = now = question.answer(flips)
    idle = 0
    for number in range(rounds):
        if not best.right or idle == IDLE:
            break
        progress = number / rounds
        spread = tau * (SHARP / SMOOTH) ** progress
        step = Round(question, now, generator)
        tried = question.answer(step.flips())
        idle = idle + 1 if torch.equal(tried.margins, now.margins) else 0
        fills = math.ceil(step.spare / max(1.0, (FILLED - progress) * rounds))
        now = question.answer(step.after(tried.margins, spread, fills))
        best = min(now, best, key=lambda answer: answer.right)
    return best.flips


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of a model for the targets after flips.

    Attributes:
        flips: codes int64 [m].
        margins: float [t]; above 0: lost.
        right: number of targets of the right class.
    """

    flips: Tensor
    margins: Tensor
    right: int


class Round:
    """One round of trials beside the flips so far.

    Args:
        question: of the search.
        now: the answer before the round.
        generator: the source of randomness.
    """

    def __init__(self, question: Question, now: Answer, generator: torch.Generator) -> None:
        self._question, self._clean = question, question.clean
        self._now, self._generator = now, generator
        self.spare = question.budget - now.flips.numel()
        count = math.ceil(RETURNS * now.flips.numel())
        some = now.flips[self._shuffled(now.flips)[:count]]
        self._back = self._disjoint(some)  # flips that may be taken back
        self._new = self._additions()

    def flips(self) -> Tensor:
        """Return the flips that are tried together."""
        remaining = self._now.flips[~torch.isin(self._now.flips, self._back)]
        return torch.cat([remaining, self._new])

    def after(self, margins: Tensor, tau: float, fills: int) -> Tensor:
        """Return the flips after the round.

        Args:
            margins: float [t], the answer to `flips`.
            tau: of the objective.
            fills: at most that many additions without another flip taken back.
        """
        at_nodes = self._gains_at_nodes(margins, tau)
        gains = at_nodes[self._clean.ends(self._new)].sum(0)
        losses = -at_nodes[self._clean.ends(self._back)].sum(0)
        new, back = self._new[gains.argsort(descending=True)], self._back[losses.argsort()]
        gains, losses = gains.sort(descending=True).values, losses.sort().values
        added = new[:fills][gains[:fills] > 0]
        # The best of the other additions take the places of the flips of least worth.
        pairs = min(back.numel(), max(0, new.numel() - fills))
        count = int((gains[fills : fills + pairs] - losses[:pairs] > LEAST_GAIN).sum())
        remaining = self._now.flips[~torch.isin(self._now.flips, back[:count])]
        return torch.cat([remaining, added, new[fills : fills + count]])

    def _gains_at_nodes(self, margins: Tensor, tau: float) -> Tensor:
        """Return float [N]: the gain that counts for a flip with that end."""
        targets, before = self._question.targets, self._now.margins
        gains = torch.zeros(self._clean.num_nodes, device=margins.device, dtype=margins.dtype)
        gains[targets] = torch.sigmoid(margins / tau) - torch.sigmoid(before / tau)
        ends = torch.zeros_like(gains)
        ends[self._clean.ends(torch.cat([self._new, self._back])).flatten()] = 1.0
        first, second = self._clean.flipped(self.flips()).edge_index()
        around = torch.zeros_like(gains).index_add_(0, first, ends[second])
        shares = torch.where((ends == 0) & (around > 0), gains / around.clamp(min=1.0), 0.0)
        return gains.index_add(0, first, shares[second])

    def _additions(self) -> Tensor:
        """Return codes of flips that could be made, each node in one of them at most."""
        question, degrees = self._question, self._clean.flipped(self._now.flips).degrees()
        weights = (degrees + 1.0).double().pow(-2)  # one edge more moves nodes of few edges most
        weights[self._clean.ends(self._back).flatten()] = 0.0
        weights[question.left(self._now.flips) <= 0] = 0.0
        held = torch.zeros_like(weights)
        held[question.targets] = (self._now.margins <= 0).to(held)
        count = math.ceil(AT_TARGETS * float(held.sum()))
        tried = int(REMOVALS * count + float(torch.rand(1, generator=self._generator)))
        edges = self._edges_at(self._drawn(weights * held, tried), weights > 0)
        weights[self._clean.ends(edges).flatten()] = 0.0
        first = self._drawn(weights * held, count)
        weights[first] = 0.0
        inner = self._drawn(weights * held, int(BETWEEN * first.numel()))
        weights[inner] = 0.0
        second = torch.cat([inner, self._drawn(weights, first.numel() - inner.numel())])
        first = first[self._shuffled(first)[: second.numel()]]
        pairs = torch.cat([self._clean.ends(edges), torch.stack([first, second])], dim=1)
        return question.possible(pairs, self._now.flips)

    def _edges_at(self, nodes: Tensor, free: Tensor) -> Tensor:
        """Return codes of clean edges between free nodes, about one for each of these nodes."""
        ends = self._clean.ends(self._clean.codes)
        edges = self._clean.codes[torch.isin(ends, nodes).any(0) & free[ends].all(0)]
        return self._disjoint(edges[self._shuffled(edges)[: nodes.numel()]])

    def _drawn(self, weights: Tensor, count: int) -> Tensor:
        """Return distinct nodes int64 [m], by weight; fewer than `count` if others weigh 0."""
        uniform = torch.rand(weights.numel(), generator=self._generator, dtype=torch.float64)
        waits = -uniform.to(weights.device).log() / weights  # the first of exponential arrivals
        return waits.topk(min(count, int((weights > 0).sum())), largest=False).indices

    def _disjoint(self, codes: Tensor) -> Tensor:
        """Return those codes [m] of which no earlier one has an end."""
        ends, order = self._clean.ends(codes), torch.arange(codes.numel(), device=codes.device)
        earliest = torch.full((self._clean.num_nodes,), codes.numel(), device=codes.device)
        for end in ends:
            earliest = earliest.scatter_reduce(0, end, order, "amin")
        return codes[(earliest[ends] == order).all(0)]

    def _shuffled(self, values: Tensor) -> Tensor:
        order = torch.randperm(values.numel(), generator=self._generator)
        return order.to(values.device)
