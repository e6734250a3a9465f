"""One-hot features: exchanges of a node's column for a better one, after the relaxed search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.links.feature_search import ValuesOfFeatures, gradients

TRIED: Final = 3  # columns of a node that are tried, those of largest gradient
STEPS: Final = 60  # in each of which one node of every group is tried
LEAST: Final = 1e-6  # gain, relative to the value (or to 1, if larger)


def best_columns(
    values_for: Callable[[Tensor], ValuesOfFeatures],
    rows: Tensor,
    owners: Tensor,
    *,
    count: int,
    highest: float,
    moves: Tensor | None = None,
) -> Tensor:
    """Return one-hot rows [n, d], each group with a value no lower than before.

    The nodes of a group take turns; the columns of largest gradient are tried and the best one
    kept. A group is left when none of its nodes gained in a turn, or its value is high enough. A
    relaxed search ends between columns, and the largest entry of a row is not always the best.

    Args:
        values_for, owners, count, highest, moves: as of `feature_search.maximise_each`.
        rows: float [n, d], one-hot.
    """
    free = torch.ones_like(owners, dtype=torch.bool) if moves is None else moves.to(owners.device)
    sizes = torch.bincount(owners[free], minlength=count)
    place = torch.full_like(owners, -1)
    place[free] = _ranks(owners[free], sizes)
    idle = torch.zeros_like(sizes)
    going = sizes > 0
    best = rows.clone()
    for step in range(STEPS):
        groups = going.nonzero().squeeze(1)
        if not groups.numel():
            break
        inside = going[owners]
        values = values_for(groups.cpu())
        turn = (place == step % sizes.clamp(min=1)[owners])[inside]
        found, gained, top = _one_exchanged(values, best[inside], owners[inside], groups, turn)
        best[inside] = found
        idle[groups] = torch.where(gained, 0, idle[groups] + 1)
        going[groups] = (idle[groups] < sizes[groups]) & (top < highest)
    return best


def _one_exchanged(
    value_of: ValuesOfFeatures, rows: Tensor, owners: Tensor, groups: Tensor, turn: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows with the best columns at `turn` bool [n], one node of each group [h], whether
    each group gained bool [h], and its value float64 [h]."""
    number = torch.searchsorted(groups, owners)
    variable = rows.detach().clone().requires_grad_()
    with torch.enable_grad():
        values = value_of(variable)
        (gradient,) = gradients(values.sum(), variable)
    before = top = values.detach().double()
    gains = gradient.masked_fill(rows > 0, -torch.inf)[turn]
    for column in gains.topk(min(TRIED, rows.shape[1] - 1), dim=1).indices.unbind(1):
        tried = variable.detach().clone()
        tried[turn] = torch.nn.functional.one_hot(column, rows.shape[1]).to(rows)
        with torch.no_grad():
            reached = value_of(tried).double()
        better = reached > top + LEAST * top.abs().clamp(min=1.0)
        top = torch.where(better, reached, top)
        rows = torch.where((turn & better[number])[:, None], tried, rows)
    return rows, top > before, top


def _ranks(owners: Tensor, sizes: Tensor) -> Tensor:
    """Return the place of each entry among those of its group, int64 [n]."""
    order = owners.argsort(stable=True)
    starts = (sizes.cumsum(0) - sizes)[owners[order]]
    ranks = torch.empty_like(owners)
    ranks[order] = torch.arange(owners.numel(), device=owners.device) - starts
    return ranks
