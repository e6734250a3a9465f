"""Searches for flips by gradients: their settings, and what all do before and after the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import (
    EdgeSet,
    edge_set,
    removable,
    shortfall,
    within_capacity,
)
from grb_check.attacks.modification.shared.flip_sources import (
    NEGLIGIBLE,
    Aim,
    FlipSource,
    gains_of_flips,
    project,
    stepped,
    weighted_logits,
)
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.setting_checks import GradientSettings
from grb_check.attacks.threat import Perturbation, Threat

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


def greedy_flips(plan: SearchSpace, flips: Tensor, count: int, steps: int) -> Tensor:
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
            plan, flips, requested, at_a_node=2 ** min(MOST_DOUBLED, max(0, step - steps))
        )
        if not chosen.numel():
            break
        flips = torch.cat([flips, chosen])
    return flips


def exchange_flips(
    plan: SearchSpace,
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
    best = held_targets(plan, aim, flips)
    for _ in range(rounds):
        keep = torch.randperm(flips.numel(), generator=generator)[count:].to(flips.device)
        tried = greedy_flips(plan, flips[keep], total - keep.numel(), 1)
        reached = held_targets(plan, aim, tried)
        if reached < best:
            flips, best = tried, reached
    return flips


def held_targets(plan: SearchSpace, aim: Aim, flips: Tensor) -> tuple[int, float]:
    """Return the number of targets still classified as labelled, and minus the objective.

    Lower is stronger.
    """
    with torch.no_grad():
        logits = aim.model(aim.x, plan.clean.flipped(flips).edge_index())[aim.targets]
        held = int((logits.argmax(1) == aim.labels).sum())
        return held, -float(aim.value(logits))


def _best_apart(plan: SearchSpace, flips: Tensor, requested: int, *, at_a_node: int) -> Tensor:
    """Return codes of at most `requested` flips with a gain, at most `at_a_node` at each node."""
    edges = plan.clean.flipped(flips)
    forbidden = flips if plan.isolate else torch.cat([flips, last_edges(plan.clean, edges)])
    left = plan.room_beside(flips)
    ranked = plan.source(edges, forbidden, RANKED * requested, None if left is None else left > 0)
    # The second of two removals at a node might take its last edge.
    room = torch.full((edges.num_nodes,), at_a_node if plan.isolate else 1)
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


class EdgeSearchSettings(GradientSettings, Protocol):
    """Settings of every search for edges by gradients.

    Attributes:
        block_size: random pairs whose gradients are taken at a time, for models that do not give
            the gradients of all pairs (`DifferentiableModel.pair_gradients`).
        isolate: whether a node may lose its last edge.
    """

    @property
    def block_size(self) -> int: ...
    @property
    def isolate(self) -> bool: ...


def search_graph(
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    settings: EdgeSearchSettings,
    find: Callable[[EdgeSet, Aim], Tensor],
    rows: Tensor | None = None,
) -> Perturbation:
    """Return the flips that a search finds in a single graph, with a note on unused budget.

    Args:
        settings: of the attack.
        find: the search, from clean edges and aim to distinct codes int64 [m].
        rows: int64 [r], nodes of which every flip has one; any node if not given.
    """
    if threat.batch is not None:
        raise ValueError("the targets are graphs: a subclass with its own perturb attacks nodes")
    if not threat.edge_budget or not threat.targets.numel() or graph.num_nodes < 2:
        return Perturbation(notes=_unused(threat, 0))
    device, clean = graph.x.device, edge_set(graph)
    targets = threat.targets.to(device)  # the threat's tensors may be elsewhere
    rows = torch.arange(graph.num_nodes) if rows is None else rows
    objective = objective_named(settings.objective)
    aim = Aim(model, graph.x, targets, graph.y[targets], objective, rows.to(device))
    flips = find(clean, aim)
    return clean.perturbation(flips, _unused(threat, flips.numel()))


def _unused(threat: Threat, used: int) -> tuple[str, ...]:
    return shortfall(used, threat.edge_budget, "no other flip raises the objective")


GREEDY_STEPS: Final = 20
BISECTIONS: Final = 40


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Weights of flips; pairs that are not among them have weight 0.

    Attributes:
        codes: int64 [m], distinct.
        weights: float [m], 0 to 1: how much each is flipped.
    """

    codes: Tensor
    weights: Tensor

    def without_negligible(self) -> Relaxed:
        """Return the flips of noticeable weight."""
        noticeable = self.weights > NEGLIGIBLE
        return Relaxed(self.codes[noticeable], self.weights[noticeable])

    def largest(self, count: int) -> Tensor:
        """Return codes of the `count` flips of largest weight, without those of weight 0."""
        order = self.weights.argsort(descending=True, stable=True)[:count]
        return self.codes[order[self.weights[order] > 0]]

    def joined(self, codes: Tensor) -> Relaxed:
        """Return the flips with other pairs added at weight 0; existing ones keep their weight."""
        new = codes[~torch.isin(codes, self.codes)]
        zeros = self.weights.new_zeros(new.numel())
        return Relaxed(torch.cat([self.codes, new]), torch.cat([self.weights, zeros]))


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
    relaxed: Relaxed, gains: Tensor, plan: SearchSpace, budget: int, step_size: float, step: int
) -> Relaxed:
    """Take one projected step along the gains [m] of flipping more, see `flip_sources.stepped`."""
    budgets = torch.tensor([budget], device=gains.device)
    (weights,) = stepped(relaxed.weights[None], gains[None], budgets, step_size, step)
    if plan.room is not None:
        weights = project_at_nodes(weights, plan.clean.ends(relaxed.codes), plan.room)
    return Relaxed(relaxed.codes, project(weights[None], budgets)[0])


def rounded(
    relaxed: Relaxed,
    plan: SearchSpace,
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
    flips would do, and the other roundings take too many of these or none).
    """
    sure = _largest(Relaxed(relaxed.codes, (relaxed.weights - 0.5).clamp(min=0)), plan, budget)
    sure = _allowed(sure, plan)
    completed = greedy_flips(plan, sure, budget - sure.numel(), GREEDY_STEPS)
    candidates = [completed, _largest(relaxed, plan, budget)]
    for _ in range(samples):
        drawn = torch.rand(relaxed.codes.numel(), generator=generator).to(relaxed.weights)
        taken = drawn < relaxed.weights
        some = Relaxed(relaxed.codes[taken], relaxed.weights[taken])
        candidates.append(_largest(some, plan, budget))
    allowed = [_allowed(candidate, plan) for candidate in candidates]
    return min(allowed, key=lambda flips: held_targets(plan, aim, flips))


def _largest(relaxed: Relaxed, plan: SearchSpace, budget: int) -> Tensor:
    """Return codes of at most `budget` flips, the largest for which all nodes have room."""
    return plan.within_room(relaxed.largest(relaxed.codes.numel()))[:budget]


def _allowed(flips: Tensor, plan: SearchSpace) -> Tensor:
    """Return the flips without removals that would isolate a node, if that is not allowed."""
    if plan.isolate:
        return flips
    present = plan.clean.has(flips)
    removed = flips[present]
    ends = plan.clean.ends(removed).cpu()
    is_allowed = removable(ends, plan.clean.degrees().cpu(), isolate=False).to(flips.device)
    return torch.cat([flips[~present], removed[is_allowed]])


def gains_of(relaxed: Relaxed, clean: EdgeSet, aim: Aim) -> Callable[[Tensor], Tensor]:
    """Return the map from weights [m] of these flips to the gains [m] of flipping more.

    Raises:
        GradientError: the model has no gradient for edges.
    """
    logits_of = weighted_logits(aim, clean, relaxed.codes)
    present = clean.has(relaxed.codes)
    return partial(gains_of_flips, lambda weights: aim.value(logits_of(weights)), present)
