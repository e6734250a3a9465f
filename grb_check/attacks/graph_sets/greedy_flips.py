"""Greedy flips of each graph, the exchange of some of them, and what to do with what is left."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.edges.removable import within_capacity
from grb_check.attacks.graph_sets.exact_tries import best_tried
from grb_check.attacks.graph_sets.graph_list import counts, joined
from grb_check.attacks.graph_sets.hashed_draws import uniform
from grb_check.attacks.graph_sets.made_flips import Made, made_of, room_of
from grb_check.attacks.graph_sets.pair_ranking import RankedRows
from grb_check.attacks.graph_sets.promising import Search

TRIES: Final = 64  # flips tried of a graph, over all steps ...
LEAST: Final = 4  # ... and in each of them at least
REMOVAL_FACTORS: Final = (1.0, 4.0, 16.0)  # of their gains, where several flips are made at once
RANKED: Final = 20  # flips looked at for each one of several that are made in a step
MOST_STEPS: Final = 20  # each is a gradient and several forward passes of all graphs
FILLS: Final = 8  # passes that the rest of the budgets is spent in


def greedy_flips(search: Search, made: Made, steps: int) -> Made:
    """Flips of largest gain, step by step, until a graph is lost or has none left.

    Of several promising ones the strongest is made; of a large budget several in a step, no node
    getting two. They are made even where the first of them do harm, but what counts in the end is
    the strongest state on the way.

    Args:
        steps: at most so many, and `MOST_STEPS`.
    """
    best, path, steps = made, made, min(steps, MOST_STEPS)
    going = made.held.clone()
    for step in range(steps):
        going &= path.held & (room_of(search.graphs, path) > 0)
        rows = going.nonzero().squeeze(1)
        if not rows.numel():
            break
        now = path.at(rows)
        wanted = -(-room_of(search.graphs, now) // (steps - step))
        after = one_step(search, now, wanted)
        going[rows] = (after.flips != now.flips).any(1)
        path = path.with_rows(rows, after)
        best = best.better_of(path)
    return best


def one_step(search: Search, made: Made, wanted: Tensor) -> Made:
    """Each graph with `wanted` int64 [V], 1 or more, flips besides; as it is where none is left."""
    single = wanted == 1
    rows, others = single.nonzero().squeeze(1), (~single).nonzero().squeeze(1)
    if rows.numel():
        made = made.with_rows(rows, _one_more(search, made.at(rows)))
    if others.numel():
        made = made.with_rows(others, _several_more(search, made.at(others), wanted[others]))
    return made


def _one_more(search: Search, made: Made) -> Made:
    """The strongest of some flips of each graph, all of them tried."""
    tries = (TRIES // search.graphs.budgets[made.owners]).clamp(min=LEAST)
    most = int(tries.max())
    candidates = search.source(made.owners, made.flips, -(-most // 2)).in_turn()
    beyond = torch.arange(candidates.shape[1], device=tries.device) >= tries[:, None]
    return best_tried(search, made, candidates.masked_fill(beyond, -1))


def _several_more(search: Search, made: Made, wanted: Tensor) -> Made:
    """The strongest of some sets of flips, which differ in what they think of removals."""
    ranked = search.source(made.owners, made.flips, RANKED * int(wanted.max()))
    chosen = [
        apart(search, made.owners, ranked.together(factor), wanted) for factor in REMOVAL_FACTORS
    ]
    best, *others = (made_of(search, made.owners, joined(made.flips, each)) for each in chosen)
    for other in others:
        best = best.better_of(other)
    return best


def apart(search: Search, owners: Tensor, ranked: RankedRows, wanted: Tensor) -> Tensor:
    """Codes [V, k]: at most `wanted` int64 [V] flips with a gain, no two at one node."""
    codes = ranked.codes.masked_fill(~(ranked.gains > 0), -1)
    copies = search.graphs.copies(owners, codes[:, :0])
    given, pairs = copies.pairs(codes)
    room = torch.ones(copies.x.shape[0], dtype=torch.int64)
    taken = within_capacity(pairs.cpu(), room).to(codes.device)
    kept = torch.zeros_like(given).masked_scatter(given, taken)
    kept &= kept.cumsum(1) <= wanted[:, None]
    return codes.masked_fill(~kept, -1)


def exchange_flips(
    search: Search, clean: Made, made: Made, rounds: int, share: float, salt: int
) -> Made:
    """Flips of which, round by round, a share is chosen anew in each graph that is still held.

    The stronger state stays. One flip is taken back at a time in a fixed random order, unless the
    share is more than one; a graph for which as many rounds as it has flips came to nothing is done
    with. One that has not come half of the way to the boundary is out of reach: exchanges seldom
    add a fifth to what was gained.

    Args:
        clean: the graphs without flips.
    """
    gained = made.standing.margin - clean.standing.margin
    in_reach = made.held & (made.standing.margin + gained > 0)
    failures = torch.zeros_like(made.owners)
    for number in range(rounds):
        size = counts(made.flips)
        rows = (in_reach & made.held & (size > 1) & (failures < size)).nonzero().squeeze(1)
        if not rows.numel():
            break
        now = made.at(rows)
        count = (share * size[rows]).round().long().clamp(min=1)
        kept = _taken_back(now, count, number, salt)
        tried = one_step(search, Made(now.owners, kept, now.standing), count)
        better = tried.standing.beats(now.standing)
        made = made.with_rows(rows, now.better_of(tried))
        failures[rows] = torch.where(better, 0, failures[rows] + 1)
    return made


def _taken_back(made: Made, count: Tensor, number: int, salt: int) -> Tensor:
    """Flips [V, B] without `count` int64 [V] of them: in round after round all have their turn."""
    size = counts(made.flips)[:, None]
    order = uniform(salt, made.owners[:, None], made.flips).masked_fill(made.flips < 0, 2.0)
    place = order.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    turn = (place - number * count[:, None]) % size
    kept = made.flips.masked_fill(turn < count[:, None], -1)
    return kept.gather(1, (kept < 0).to(torch.int8).argsort(dim=1, stable=True))


def spend_the_rest(search: Search, made: Made) -> Made:
    """Further flips with a gain in the graphs that are lost, where they leave them so.

    They serve where another model is meant than the one that was asked, and cost nothing.
    """
    share = torch.ones_like(made.standing.margin)
    for _ in range(FILLS):
        room = room_of(search.graphs, made)
        rows = (~made.held & (room > 0) & (share > 0)).nonzero().squeeze(1)
        if not rows.numel():
            break
        now = made.at(rows)
        wanted = (share[rows] * room[rows]).long().clamp(min=1)
        ranked = search.source(now.owners, now.flips, RANKED * int(wanted.max()))
        chosen = apart(search, now.owners, ranked.together(REMOVAL_FACTORS[1]), wanted)
        tried = made_of(search, now.owners, joined(now.flips, chosen))
        worse = now.standing.beats(tried.standing) | (counts(chosen) == 0)
        made = made.with_rows(
            rows,
            Made(
                now.owners,
                torch.where(worse[:, None], now.flips, tried.flips),
                now.standing.where(worse, tried.standing),
            ),
        )
        # What did harm is tried with fewer; a single one that did is the end.
        share[rows] = torch.where(worse, torch.where(wanted > 1, share[rows] / 4, 0.0), share[rows])
    return made
