"""The best of several flips of each graph, each of them tried."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.graph_list import joined
from grb_check.attacks.graph_sets.made_flips import Made, made_of
from grb_check.attacks.graph_sets.promising import Search
from grb_check.attacks.graph_sets.standings import Standing

WAVES: Final = (4, 12, 16, 32, 64, 128, 256)  # candidates tried before lost graphs drop out


def best_tried(search: Search, made: Made, candidates: Tensor) -> Made:
    """Each graph with the strongest of its candidates made besides, whether or not it helps.

    All graphs share the forward passes; one that is lost needs no more of them. A gradient is
    right for small weights; what a whole flip does is only told by making it.

    Args:
        candidates: int64 [V, k], flips, the most promising first, -1 for none; a graph without
            any stays as it is.
    """
    best = made.with_rows(candidates[:, 0] >= 0, _hopeless(made.at(candidates[:, 0] >= 0)))
    start = 0
    for width in _waves(candidates.shape[1]):
        rows = (best.held & (candidates[:, start] >= 0)).nonzero().squeeze(1)
        if not rows.numel():
            break
        wave = candidates[rows, start : start + width]
        reached = _tried(search, made.at(rows), wave)
        best = best.with_rows(rows, best.at(rows).better_of(reached))
        start += width
    return best


def _waves(count: int) -> list[int]:
    found, left = [], count
    for wave in WAVES:
        if left > 0:
            found.append(min(wave, left))
            left -= found[-1]
    return found


def _hopeless(made: Made) -> Made:
    """Standings that any other beats."""
    lowest = torch.full_like(made.standing.margin, float("-inf"))
    return Made(made.owners, made.flips, Standing(torch.ones_like(made.held), lowest))


def _tried(search: Search, made: Made, candidates: Tensor) -> Made:
    """The best of candidates [V, k] of each graph."""
    row, column = (candidates >= 0).nonzero().unbind(1)
    flips = joined(made.flips[row], candidates[row, column][:, None])
    variants = made_of(search, made.owners[row], flips)
    best = _hopeless(made)
    for each in range(candidates.shape[1]):
        these = column == each
        reached = variants.at(these)
        rows = row[these]
        best = best.with_rows(rows, best.at(rows).better_of(reached))
    return best
