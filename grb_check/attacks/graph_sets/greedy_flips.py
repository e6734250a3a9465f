"""Greedy flips of each graph, the exchange of some of them, and the rest of the budgets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.candidate_flips import Search, row_objective
from grb_check.attacks.graph_sets.graph_list import (
    GraphList,
    append_flips,
    count_flips,
    new_key,
    no_flips,
    packed,
    uniform,
)
from grb_check.attacks.graph_sets.pair_ranking import RankedRows
from grb_check.attacks.graph_sets.rounding import quantised
from grb_check.attacks.modification.shared.removable import removable, within_capacity

WAVES: Final = (4, 12, 16, 32, 64, 128, 256)  # candidates tried before graphs may drop out
TRIES: Final = 64  # flips of a graph that are tried over all steps ...
LEAST: Final = 4  # ... and at least in each step
REMOVAL_FACTORS: Final = (1.0, 4.0, 16.0)  # for removals' gains, if several flips are made at once
RANKED: Final = 20  # candidates for each of several flips that are made in a step
MOST_STEPS: Final = 20  # each takes a gradient and several forward passes of all graphs
FILLS: Final = 8  # passes in which the rest of the budgets is spent


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


def flips_left(graphs: GraphList, flipped: FlippedGraphs) -> Tensor:
    """Return how many flips each graph has left, at most as many as it has pairs, int64 [V]."""
    budgets = graphs.budgets[flipped.owners].minimum(graphs.pair_counts[flipped.owners])
    return budgets - count_flips(flipped.flips)


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
    codes = flips[given]
    codes[removed.nonzero().squeeze(1)[stays]] = -1
    return packed(flips.masked_scatter(given, codes))


def best_tried(search: Search, flipped: FlippedGraphs, candidates: Tensor) -> FlippedGraphs:
    """Make the strongest of its candidates in each graph, whether or not it helps.

    All graphs share the forward passes; misclassified ones drop out. A gradient holds for small
    weights; the effect of a whole flip is only known by making it.

    Args:
        candidates: int64 [V, k], flips, the most promising first, -1 for none; a graph without
            candidates stays unchanged.
    """
    best = flipped.with_rows(
        candidates[:, 0] >= 0, _worst_possible(flipped.at(candidates[:, 0] >= 0))
    )
    start = 0
    for width in _waves(candidates.shape[1]):
        rows = (best.held & (candidates[:, start] >= 0)).nonzero().squeeze(1)
        if not rows.numel():
            break
        wave = candidates[rows, start : start + width]
        reached = _tried(search, flipped.at(rows), wave)
        best = best.with_rows(rows, best.at(rows).better_of(reached))
        start += width
    return best


def _waves(count: int) -> list[int]:
    result, left = [], count
    for wave in WAVES:
        if left > 0:
            result.append(min(wave, left))
            left -= result[-1]
    return result


def _worst_possible(flipped: FlippedGraphs) -> FlippedGraphs:
    """Return the graphs with predictions that all others beat."""
    lowest = torch.full_like(flipped.margin, float("-inf"))
    return replace(flipped, held=torch.ones_like(flipped.held), margin=lowest)


def _tried(search: Search, flipped: FlippedGraphs, candidates: Tensor) -> FlippedGraphs:
    """Make the best of candidates [V, k] in each graph."""
    row, column = (candidates >= 0).nonzero().unbind(1)
    flips = append_flips(flipped.flips[row], candidates[row, column][:, None])
    variants = flip_graphs(search, flipped.owners[row], flips)
    best = _worst_possible(flipped)
    for index in range(candidates.shape[1]):
        these = column == index
        reached = variants.at(these)
        rows = row[these]
        best = best.with_rows(rows, best.at(rows).better_of(reached))
    return best


def greedy_search(
    search: Search,
    generator: torch.Generator,
    *,
    steps: int,
    exchanges: int,
    exchange_share: float,
) -> FlippedGraphs:
    """Return greedy flips after exchanges, with the rest of the budgets spent.

    Arguments are those of `greedy_flips` and `exchange_flips`.
    """
    clean = unflipped(search)
    flips = greedy_flips(search, clean, steps)
    flips = exchange_flips(search, clean, flips, exchanges, exchange_share, new_key(generator))
    return spend_the_rest(search, flips)


def greedy_flips(search: Search, flipped: FlippedGraphs, steps: int) -> FlippedGraphs:
    """Make flips of largest gain step by step until a graph is misclassified or has none left.

    A step makes the strongest of several candidates, or several flips at different nodes if the
    budget is large. It makes them even if they are harmful at first; the strongest state on the way
    is returned.

    Args:
        steps: maximum number of steps, itself at most `MOST_STEPS`.
    """
    best, path, steps = flipped, flipped, min(steps, MOST_STEPS)
    going = flipped.held.clone()
    for step in range(steps):
        going &= path.held & (flips_left(search.graphs, path) > 0)
        rows = going.nonzero().squeeze(1)
        if not rows.numel():
            break
        now = path.at(rows)
        requested = -(-flips_left(search.graphs, now) // (steps - step))
        after = one_step(search, now, requested)
        going[rows] = (after.flips != now.flips).any(1)
        path = path.with_rows(rows, after)
        best = best.better_of(path)
    return best


def one_step(search: Search, flipped: FlippedGraphs, requested: Tensor) -> FlippedGraphs:
    """Make `requested` int64 [V], 1 or more, further flips in each graph, if there are any."""
    single = requested == 1
    rows, others = single.nonzero().squeeze(1), (~single).nonzero().squeeze(1)
    if rows.numel():
        flipped = flipped.with_rows(rows, _one_more(search, flipped.at(rows)))
    if others.numel():
        flipped = flipped.with_rows(
            others, _several_more(search, flipped.at(others), requested[others])
        )
    return flipped


def _one_more(search: Search, flipped: FlippedGraphs) -> FlippedGraphs:
    """Make the strongest of some flips of each graph, after trying all of them."""
    tries = (TRIES // search.graphs.budgets[flipped.owners]).clamp(min=LEAST)
    most = int(tries.max())
    candidates = search.source(flipped.owners, flipped.flips, -(-most // 2)).in_turn()
    beyond = torch.arange(candidates.shape[1], device=tries.device) >= tries[:, None]
    return best_tried(search, flipped, candidates.masked_fill(beyond, -1))


def _several_more(search: Search, flipped: FlippedGraphs, requested: Tensor) -> FlippedGraphs:
    """Make the strongest of some sets of flips, which differ in the weight of removals."""
    ranked = search.source(flipped.owners, flipped.flips, RANKED * int(requested.max()))
    chosen = [
        at_distinct_nodes(search, flipped.owners, ranked.together(factor), requested)
        for factor in REMOVAL_FACTORS
    ]
    best, *others = (
        flip_graphs(search, flipped.owners, append_flips(flipped.flips, codes)) for codes in chosen
    )
    for other in others:
        best = best.better_of(other)
    return best


def at_distinct_nodes(
    search: Search, owners: Tensor, ranked: RankedRows, requested: Tensor
) -> Tensor:
    """Return codes [V, k] of up to `requested` int64 [V] flips with a gain, no two at one node."""
    codes = ranked.codes.masked_fill(~(ranked.gains > 0), -1)
    copies = search.graphs.copies(owners)
    given, pairs = copies.pairs(codes)
    room = torch.ones(copies.x.shape[0], dtype=torch.int64)
    taken = within_capacity(pairs.cpu(), room).to(codes.device)
    selected = torch.zeros_like(given).masked_scatter(given, taken)
    selected &= selected.cumsum(1) <= requested[:, None]
    return codes.masked_fill(~selected, -1)


def exchange_flips(
    search: Search,
    clean: FlippedGraphs,
    flipped: FlippedGraphs,
    rounds: int,
    share: float,
    key: int,
) -> FlippedGraphs:
    """Replace a share of the flips, round by round, in each graph that is not yet misclassified.

    The stronger state is kept. The share is rounded to flips, at least one, which are taken back
    in a fixed random order; a graph is finished after as many rounds without success as it has
    flips. Graphs less than half way to the decision boundary are left out: exchanges seldom gain a
    fifth more.

    Args:
        clean: the graphs without flips.
    """
    gained = flipped.margin - clean.margin
    in_reach = flipped.held & (flipped.margin + gained > 0)
    failures = torch.zeros_like(flipped.owners)
    for number in range(rounds):
        size = count_flips(flipped.flips)
        rows = (in_reach & flipped.held & (size > 1) & (failures < size)).nonzero().squeeze(1)
        if not rows.numel():
            break
        now = flipped.at(rows)
        count = (share * size[rows]).round().long().clamp(min=1)
        remaining = _taken_back(now, count, number, key)
        tried = one_step(search, replace(now, flips=remaining), count)
        better = tried.beats(now)
        flipped = flipped.with_rows(rows, now.better_of(tried))
        failures[rows] = torch.where(better, 0, failures[rows] + 1)
    return flipped


def _taken_back(flipped: FlippedGraphs, count: Tensor, number: int, key: int) -> Tensor:
    """Return flips [V, B] without `count` int64 [V] of them, which take turns over the rounds."""
    size = count_flips(flipped.flips)[:, None]
    order = uniform(key, flipped.owners[:, None], flipped.flips).masked_fill(flipped.flips < 0, 2.0)
    position = order.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    turn = (position - number * count[:, None]) % size
    return packed(flipped.flips.masked_fill(turn < count[:, None], -1))


def spend_the_rest(search: Search, flipped: FlippedGraphs) -> FlippedGraphs:
    """Make further flips with a gain in misclassified graphs, if these stay misclassified.

    They cost nothing, and help if the flips are transferred to another model.
    """
    share = torch.ones_like(flipped.margin)
    for _ in range(FILLS):
        room = flips_left(search.graphs, flipped)
        rows = (~flipped.held & (room > 0) & (share > 0)).nonzero().squeeze(1)
        if not rows.numel():
            break
        now = flipped.at(rows)
        requested = (share[rows] * room[rows]).long().clamp(min=1)
        ranked = search.source(now.owners, now.flips, RANKED * int(requested.max()))
        chosen = at_distinct_nodes(
            search, now.owners, ranked.together(REMOVAL_FACTORS[1]), requested
        )
        tried = flip_graphs(search, now.owners, append_flips(now.flips, chosen))
        worse = now.beats(tried) | (count_flips(chosen) == 0)
        flipped = flipped.with_rows(rows, now.where(worse, tried))
        # Flips that did harm are retried with fewer; a single one that did is the end.
        share[rows] = torch.where(
            worse, torch.where(requested > 1, share[rows] / 4, 0.0), share[rows]
        )
    return flipped
