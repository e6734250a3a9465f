"""The best flips at targets by a score of each pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import edges_at
from grb_check.attacks.modification.shared.flips_at_targets import pairs_across, split_budget
from grb_check.attacks.modification.shared.removable import (
    open_nodes,
    reason_within,
    room_beside,
    room_for_removals,
    shortfall,
    within_capacity,
)
from grb_check.attacks.threat import Perturbation, Threat

PART: Final = 4096  # least number of pairs considered at once


@dataclass(frozen=True, eq=False)
class Candidates:
    """Edges to remove int64 [2, r] and pairs to add int64 [2, a], with a target end each.

    They are in random order, so that ties of a score are broken at random.
    """

    removals: Tensor
    additions: Tensor


def candidates_at(
    graph: Data, threat: Threat, additions: int, generator: torch.Generator
) -> Candidates:
    """Return all edges at the targets and a random sample of the non-edges at them."""
    edges = edges_at(graph, threat.targets)
    nodes = torch.arange(graph.num_nodes)
    targets, is_open = open_nodes(threat, graph.num_nodes)
    pairs, count = pairs_across(targets, nodes, is_open)
    taken = edges[:, is_open[edges].all(0)]
    free = count - taken.shape[1]
    sample = pairs.sample(min(additions, free), free, taken, generator)
    return Candidates(_shuffled(edges, generator), _shuffled(sample, generator))


def best_flips(
    graph: Data,
    threat: Threat,
    candidates: Candidates,
    removal_scores: Tensor,
    addition_scores: Tensor,
    *,
    isolate: bool,
) -> Perturbation:
    """Return the flips of highest score, removals and additions together.

    Args:
        graph: clean graph.
        threat: edge budget.
        candidates: r removals and a additions.
        removal_scores: float [r].
        addition_scores: float [a].
        isolate: whether a node may lose its last edge.
    """
    room = room_for_removals(graph, threat, isolate=isolate)
    removals, allowed_scores = _removals(candidates.removals, removal_scores, room)
    scores = torch.cat([allowed_scores, addition_scores])
    best = scores.argsort(descending=True, stable=True)
    if threat.local_budgets is not None:
        pairs = torch.cat([removals, candidates.additions], dim=1)[:, best]
        best = best[within_capacity(pairs, threat.local_budgets.cpu())]
    best = best[: threat.edge_budget]
    removed = best[best < allowed_scores.numel()]
    added = best[best >= allowed_scores.numel()] - allowed_scores.numel()
    return _perturbation(threat, removals, candidates.additions, removed, added)


def best_of_each_kind(
    graph: Data,
    threat: Threat,
    candidates: Candidates,
    removal_scores: Tensor,
    addition_scores: Tensor,
    *,
    removal_share: float,
    isolate: bool,
) -> Perturbation:
    """Return the removals of highest score, and the additions of highest score at different nodes.

    Args: as for `best_flips`, and:
        removal_share: part of the budget for removals, rounded down; if one kind runs out of
            candidates, the other gets the rest.
    """
    room = room_for_removals(graph, threat, isolate=isolate)
    removals, allowed_scores = _removals(candidates.removals, removal_scores, room)
    additions = candidates.additions[:, addition_scores.argsort(descending=True, stable=True)]
    removed, added = split_budget(
        threat.edge_budget, removal_share, allowed_scores.numel(), additions.shape[1]
    )
    left = room_beside(threat, removals[:, :removed])
    if left is not None:
        additions = additions[:, within_capacity(additions, left)]
        added = min(added, additions.shape[1])
    spread = _spread(additions, added, graph.num_nodes)
    return _perturbation(threat, removals, additions, torch.arange(removed), spread)


def _shuffled(pairs: Tensor, generator: torch.Generator) -> Tensor:
    return pairs[:, torch.randperm(pairs.shape[1], generator=generator)]


def _removals(edges: Tensor, scores: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges that can be removed and their scores, by descending score."""
    order = scores.argsort(descending=True, stable=True)
    order = order[within_capacity(edges[:, order], room)]
    return edges[:, order], scores[order]


def _spread(pairs: Tensor, count: int, num_nodes: int) -> Tensor:
    """Return indices of `count` pairs: first each node at most once, then once more, and so on."""
    room = torch.ones(num_nodes, dtype=torch.int64)
    free = torch.ones(pairs.shape[1], dtype=torch.bool)
    chosen = torch.empty(0, dtype=torch.int64)
    while chosen.numel() < count:
        for part in torch.split(free.nonzero().squeeze(1), max(PART, count)):
            taken = part[within_capacity(pairs[:, part], room)][: count - chosen.numel()]
            room -= torch.bincount(pairs[:, taken].flatten(), minlength=num_nodes)
            free[taken] = False
            chosen = torch.cat([chosen, taken])
        room += 1
    return chosen


def _perturbation(
    threat: Threat, removals: Tensor, additions: Tensor, removed: Tensor, added: Tensor
) -> Perturbation:
    return Perturbation(
        added_edges=additions[:, added],
        removed_edges=removals[:, removed],
        notes=shortfall(
            removed.numel() + added.numel(),
            threat.edge_budget,
            reason_within(
                threat, f"edges to remove: {removals.shape[1]}, to add: {additions.shape[1]}"
            ),
        ),
    )
