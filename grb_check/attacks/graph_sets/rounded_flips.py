"""Rounding of relaxed flips: the strongest flips for each graph."""

from __future__ import annotations

from typing import Final

from grb_check.attacks.graph_sets.flip_sources import Search
from grb_check.attacks.graph_sets.flipped_graphs import (
    FlippedGraphs,
    flip_graphs,
    unflipped,
    without_isolating,
)
from grb_check.attacks.graph_sets.greedy_flips import (
    exchange_flips,
    greedy_flips,
    spend_the_rest,
)
from grb_check.attacks.graph_sets.keyed_random import uniform
from grb_check.attacks.graph_sets.relaxed_flips import RelaxedRows, Widen, relaxed_flips

GREEDY_STEPS: Final = 20
EXCHANGES: Final = 10
EXCHANGE_SHARE: Final = 0.05


def relaxed_search(
    search: Search,
    widen: Widen,
    *,
    iterations: int,
    every: int,
    step_size: float,
    samples: int,
    key: int,
) -> FlippedGraphs:
    """Return relaxed flips of all graphs after rounding and exchanges.

    With a budget of a single flip there is nothing to relax: the best candidates are tried instead.
    Arguments are those of `relaxed_flips` and `rounded_rows`.
    """
    clean = unflipped(search)
    single = search.graphs.budgets[clean.owners] == 1
    rows, others = single.nonzero().squeeze(1), (~single).nonzero().squeeze(1)
    made = clean.with_rows(rows, greedy_flips(search, clean.at(rows), 1))
    best, relaxed = relaxed_flips(
        search, clean.at(others), widen, iterations=iterations, every=every, step_size=step_size
    )
    made = made.with_rows(others, rounded_rows(search, best, relaxed, samples, key))
    made = exchange_flips(search, clean, made, EXCHANGES, EXCHANGE_SHARE, key)
    return spend_the_rest(search, made)


def rounded_rows(
    search: Search, best: FlippedGraphs, relaxed: RelaxedRows, samples: int, key: int
) -> FlippedGraphs:
    """Return the strongest of several roundings and of known flips for each graph.

    As `relaxation.rounded`: random draws, which take each flip with its weight as probability, only
    the largest ones if there are too many; and flips of weight above 0.5, with the rest of the
    budget spent greedily. The largest weights were tried during the ascent.

    Args:
        best: known flips of the same graphs.
    """
    budgets, width = search.graphs.budgets[best.owners], best.flips.shape[1]
    rows = best.held.nonzero().squeeze(1)
    if not rows.numel():
        return best
    owners, now = best.owners[rows], relaxed.at(rows)
    sure = RelaxedRows(now.codes, (now.weights - 0.5).clamp(min=0))
    flips = without_isolating(search, owners, sure.largest(budgets[rows], width))
    completed = greedy_flips(search, flip_graphs(search, owners, flips), GREEDY_STEPS)
    best = best.with_rows(rows, best.at(rows).better_of(completed))
    for sample in range(samples):
        rows = best.held.nonzero().squeeze(1)
        if not rows.numel():
            break
        owners, now = best.owners[rows], relaxed.at(rows)
        draw = uniform(key, owners[:, None], now.codes, now.codes.new_tensor(sample))
        taken = RelaxedRows(now.codes, now.weights * (draw < now.weights))
        flips = without_isolating(search, owners, taken.largest(budgets[rows], width))
        best = best.with_rows(rows, best.at(rows).better_of(flip_graphs(search, owners, flips)))
    return best
