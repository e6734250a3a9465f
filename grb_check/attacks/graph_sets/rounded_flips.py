"""From weights of flips to flips, the strongest for each graph."""

from __future__ import annotations

from typing import Final

from grb_check.attacks.graph_sets.greedy_flips import (
    exchange_flips,
    greedy_flips,
    spend_the_rest,
)
from grb_check.attacks.graph_sets.hashed_draws import uniform
from grb_check.attacks.graph_sets.made_flips import Made, made_of, nothing_made, permitted
from grb_check.attacks.graph_sets.promising import Search
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
    salt: int,
) -> Made:
    """Relaxed flips in all graphs, rounded, and improved by exchanges where that is in reach.

    A budget of a single flip leaves nothing to relax: there, promising flips are tried.
    Arguments are those of `relaxed_flips` and `rounded_rows`.
    """
    clean = nothing_made(search)
    single = search.graphs.budgets[clean.owners] == 1
    rows, others = single.nonzero().squeeze(1), (~single).nonzero().squeeze(1)
    made = clean.with_rows(rows, greedy_flips(search, clean.at(rows), 1))
    best, relaxed = relaxed_flips(
        search, clean.at(others), widen, iterations=iterations, every=every, step_size=step_size
    )
    made = made.with_rows(others, rounded_rows(search, best, relaxed, samples, salt))
    made = exchange_flips(search, clean, made, EXCHANGES, EXCHANGE_SHARE, salt)
    return spend_the_rest(search, made)


def rounded_rows(search: Search, best: Made, relaxed: RelaxedRows, samples: int, salt: int) -> Made:
    """Each graph with the strongest of several roundings, and of what is known to be possible.

    As `relaxation.rounded`: random draws, which take each flip with its weight as probability, the
    largest of them where there are too many; and what is more than half flipped, the rest of the
    budget being spent greedily. The largest weights were tried on the way.

    Args:
        best: known flips of the same graphs.
    """
    budgets, width = search.graphs.budgets[best.owners], best.flips.shape[1]
    rows = best.held.nonzero().squeeze(1)
    if not rows.numel():
        return best
    owners, now = best.owners[rows], relaxed.at(rows)
    sure = RelaxedRows(now.codes, (now.weights - 0.5).clamp(min=0))
    flips = permitted(search, owners, sure.largest(budgets[rows], width))
    completed = greedy_flips(search, made_of(search, owners, flips), GREEDY_STEPS)
    best = best.with_rows(rows, best.at(rows).better_of(completed))
    for sample in range(samples):
        rows = best.held.nonzero().squeeze(1)
        if not rows.numel():
            break
        owners, now = best.owners[rows], relaxed.at(rows)
        draw = uniform(salt, owners[:, None], now.codes, now.codes.new_tensor(sample))
        taken = RelaxedRows(now.codes, now.weights * (draw < now.weights))
        flips = permitted(search, owners, taken.largest(budgets[rows], width))
        best = best.with_rows(rows, best.at(rows).better_of(made_of(search, owners, flips)))
    return best
