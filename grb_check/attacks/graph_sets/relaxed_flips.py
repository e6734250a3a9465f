"""Flips of the graphs of a set as weights between 0 and 1: ascent within budgets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.candidate_flips import Search, weighted_logits
from grb_check.attacks.graph_sets.graph_list import Copies, count_flips, no_flips, uniform
from grb_check.attacks.graph_sets.greedy_flips import (
    FlippedGraphs,
    exchange_flips,
    flip_graphs,
    greedy_flips,
    spend_the_rest,
    unflipped,
    without_isolating,
)
from grb_check.attacks.modification.shared.flip_weights import (
    NEGLIGIBLE,
    gains_of_flips,
    project,
    stepped,
)

PATIENCE: Final = 3  # renewals without a gain
GREEDY_STEPS: Final = 20
EXCHANGES: Final = 10
EXCHANGE_SHARE: Final = 0.05


@dataclass(frozen=True, eq=False)
class RelaxedRows:
    """Weights of flips of V graphs; pairs that are not among them have weight 0.

    Attributes:
        codes: int64 [V, m], see `GraphList`.
        weights: float [V, m], 0 to 1: how much each is flipped; 0 for no flip.
    """

    codes: Tensor
    weights: Tensor

    def at(self, rows: Tensor) -> RelaxedRows:
        """Return some of the graphs."""
        return RelaxedRows(self.codes[rows], self.weights[rows])

    def largest(self, budgets: Tensor, width: int) -> Tensor:
        """Return codes [V, width] of the `budgets` [V] flips of largest weight above 0."""
        order = self.weights.argsort(dim=1, descending=True, stable=True)[:, :width]
        codes, weights = self.codes.gather(1, order), self.weights.gather(1, order)
        position = torch.arange(codes.shape[1], device=codes.device)
        codes = codes.masked_fill((position >= budgets[:, None]) | (weights <= 0), -1)
        return torch.cat([codes, no_flips(codes.shape[0], width - codes.shape[1], codes)], dim=1)

    def without_negligible(self) -> RelaxedRows:
        """Return the flips of noticeable weight."""
        return _compact(self.codes.masked_fill(self.weights <= NEGLIGIBLE, -1), self.weights)

    def joined(self, codes: Tensor) -> RelaxedRows:
        """Return the flips with other pairs [V, k] added at weight 0."""
        zeros = self.weights.new_zeros(codes.shape)
        return _compact(
            torch.cat([self.codes, codes], dim=1), torch.cat([self.weights, zeros], dim=1)
        )


def _compact(codes: Tensor, weights: Tensor) -> RelaxedRows:
    """Move each row's -1 to its end, and drop columns that are not needed."""
    order = (codes < 0).to(torch.int8).argsort(dim=1, stable=True)
    order = order[:, : int(count_flips(codes).max())] if codes.numel() else order
    codes = codes.gather(1, order)
    return RelaxedRows(codes, weights.gather(1, order).masked_fill(codes < 0, 0.0))


Widen = Callable[[Tensor, RelaxedRows], Tensor]  # graphs [V] and weights -> other pairs [V, k]


def relaxed_flips(
    search: Search,
    clean: FlippedGraphs,
    widen: Widen,
    *,
    iterations: int,
    every: int,
    step_size: float,
) -> tuple[FlippedGraphs, RelaxedRows]:
    """Ascend in all graphs; return the strongest rounding on the way, and the final weights.

    The largest weights are rounded whenever pairs are renewed. Graphs that are misclassified by
    then, or gained nothing in `PATIENCE` renewals, take no more steps.

    Args:
        clean: the graphs without flips.
        widen: gives pairs to add at weight 0, before the first step and ...
        every: ... after that many steps.
        step_size: relative to the gradient, see `flip_weights.stepped`.
    """
    budgets, width = search.graphs.budgets[clean.owners], clean.flips.shape[1]
    none = no_flips(clean.owners.numel(), 0, clean.owners)
    relaxed = RelaxedRows(none, none.to(clean.margin.dtype))
    best, idle = clean, torch.zeros_like(clean.owners)
    for first in range(0, iterations, every):
        rows = (best.held & (idle < PATIENCE)).nonzero().squeeze(1)
        if not rows.numel():
            break
        owners, now = clean.owners[rows], relaxed.at(rows).without_negligible()
        now = now.joined(widen(owners, now))
        steps = range(first, min(first + every, iterations))
        now = _ascended(search, owners, now, steps, step_size)
        relaxed = _with_rows(relaxed, rows, now)
        flips = without_isolating(search, owners, now.largest(budgets[rows], width))
        reached = flip_graphs(search, owners, flips)
        further = reached.beats(best.at(rows))
        idle[rows] = torch.where(further, 0, idle[rows] + 1)
        best = best.with_rows(rows, best.at(rows).better_of(reached))
    return best, relaxed


def _ascended(
    search: Search, owners: Tensor, relaxed: RelaxedRows, steps: range, step_size: float
) -> RelaxedRows:
    """Return the weights after some steps with the same pairs."""
    graphs, weights = search.graphs, relaxed.weights.clone()
    for part in graphs.parts(owners, count_flips(relaxed.codes)):
        copies = graphs.copies(owners[part])
        given, pairs = copies.pairs(relaxed.codes[part])
        logits_of = weighted_logits(copies, pairs)
        if logits_of is None:
            continue
        present = copies.clean.has(copies.clean.encode(pairs))
        value = _value_of(search, copies, logits_of)
        part_weights, budgets = weights[part], graphs.budgets[owners[part]]
        for step in steps:
            gains = torch.full_like(part_weights, -math.inf)
            gains[given] = gains_of_flips(value, present, part_weights[given])
            after = stepped(part_weights, gains, budgets, step_size, step)
            part_weights = project(after.where(given, 0.0), budgets)
        weights[part] = part_weights
    return RelaxedRows(relaxed.codes, weights)


def _value_of(
    search: Search, copies: Copies, logits_of: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """Return the map from weights of pairs to the objectives' sum: no graph affects another."""
    return lambda weights: search.objective(logits_of(weights), copies.labels).sum()


def without(codes: Tensor, others: Tensor) -> Tensor:
    """Return codes [V, k] with -1 for those among the others [V, m] of the same row."""
    rows = torch.arange(codes.shape[0], device=codes.device)[:, None] * 2**40
    return codes.masked_fill(torch.isin(rows + codes, rows + others), -1)


def _with_rows(relaxed: RelaxedRows, rows: Tensor, other: RelaxedRows) -> RelaxedRows:
    """Return the flips with the other's in these rows [m]."""
    width = max(relaxed.codes.shape[1], other.codes.shape[1])
    num_rows = relaxed.codes.shape[0]
    codes = no_flips(num_rows, width, relaxed.codes)
    weights = relaxed.weights.new_zeros(codes.shape)
    for source, positions in ((relaxed, slice(None)), (other, rows)):
        codes[positions] = -1
        weights[positions] = 0.0
        codes[positions, : source.codes.shape[1]] = source.codes
        weights[positions, : source.codes.shape[1]] = source.weights
    return RelaxedRows(codes, weights)


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
    flips = clean.with_rows(rows, greedy_flips(search, clean.at(rows), 1))
    best, relaxed = relaxed_flips(
        search, clean.at(others), widen, iterations=iterations, every=every, step_size=step_size
    )
    flips = flips.with_rows(others, rounded_rows(search, best, relaxed, samples, key))
    flips = exchange_flips(search, clean, flips, EXCHANGES, EXCHANGE_SHARE, key)
    return spend_the_rest(search, flips)


def rounded_rows(
    search: Search, best: FlippedGraphs, relaxed: RelaxedRows, samples: int, key: int
) -> FlippedGraphs:
    """Return the strongest of several roundings and of known flips for each graph.

    As `relaxation.rounded`: random draws, which take each flip with its weight as probability and
    only the largest ones if there are too many; and flips of weight above 0.5, with the rest of the
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
