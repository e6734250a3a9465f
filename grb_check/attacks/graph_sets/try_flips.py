"""The best of several flips of each graph, found by trying them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.flip_sources import Search
from grb_check.attacks.graph_sets.flipped_graphs import FlippedGraphs, flip_graphs
from grb_check.attacks.graph_sets.graph_list import append_flips

WAVES: Final = (4, 12, 16, 32, 64, 128, 256)  # candidates tried before graphs may drop out


def best_tried(search: Search, made: FlippedGraphs, candidates: Tensor) -> FlippedGraphs:
    """Make the strongest of its candidates in each graph, whether or not it helps.

    All graphs share the forward passes; misclassified ones drop out. A gradient holds for small
    weights; the effect of a whole flip is only known by making it.

    Args:
        candidates: int64 [V, k], flips, the most promising first, -1 for none; a graph without
            candidates stays unchanged.
    """
    best = made.with_rows(candidates[:, 0] >= 0, _worst_possible(made.at(candidates[:, 0] >= 0)))
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


def _worst_possible(made: FlippedGraphs) -> FlippedGraphs:
    """Return the graphs with predictions that all others beat."""
    lowest = torch.full_like(made.margin, float("-inf"))
    return replace(made, held=torch.ones_like(made.held), margin=lowest)


def _tried(search: Search, made: FlippedGraphs, candidates: Tensor) -> FlippedGraphs:
    """Make the best of candidates [V, k] in each graph."""
    row, column = (candidates >= 0).nonzero().unbind(1)
    flips = append_flips(made.flips[row], candidates[row, column][:, None])
    variants = flip_graphs(search, made.owners[row], flips)
    best = _worst_possible(made)
    for each in range(candidates.shape[1]):
        these = column == each
        reached = variants.at(these)
        rows = row[these]
        best = best.with_rows(rows, best.at(rows).better_of(reached))
    return best
