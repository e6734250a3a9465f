"""Random flips at targets, each equally likely, without N x N arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import edges_at, mask_of
from grb_check.attacks.modification.shared.pair_ranges import PairRanges
from grb_check.attacks.modification.shared.removable import (
    open_nodes,
    reason_within,
    room_beside,
    room_for_removals,
    shortfall,
    within_capacity,
)
from grb_check.attacks.threat import Perturbation, Threat

SPARE: Final = 10  # pairs drawn for each one wanted, if some nodes may have no room for it


def random_flips_at_targets(
    graph: Data,
    threat: Threat,
    *,
    groups: Tensor,
    remove_within: bool,
    partners: Sequence[Tensor],
    removal_share: float,
    most_additions: int,
    isolate: bool,
    generator: torch.Generator,
) -> Perturbation:
    """Spend the edge budget on random flips of pairs with a target end.

    Args:
        graph: clean graph.
        threat: targets, edge budget and local budgets.
        groups: int64 [N] on the CPU, 0 .. number of groups - 1: edges are only added between
            different groups.
        remove_within: remove edges inside groups only; otherwise any.
        partners: bool [N] each, a partition of the nodes: the other ends of the flips, in order of
            preference.
        removal_share: part of the budget for removals, rounded down. If one kind runs out of
            candidates, the other gets the rest; a note reports what neither can use.
        most_additions: maximum number of added edges.
        isolate: whether a node may lose its last edge.
        generator: the source of randomness.
    """
    edges = edges_at(graph, threat.targets)
    across = groups[edges[0]] != groups[edges[1]]
    candidates = edges[:, ~across] if remove_within else edges
    candidates = _by_preference(candidates, threat.targets, partners, generator)
    room = room_for_removals(graph, threat, isolate=isolate)
    candidates = candidates[:, within_capacity(candidates, room)]
    targets, is_open = open_nodes(threat, graph.num_nodes)
    pools = [_Pool(targets, groups, allowed & is_open, edges[:, across]) for allowed in partners]
    addable = min(sum(pool.free for pool in pools), most_additions)

    removals, additions = split_budget(
        threat.edge_budget, removal_share, candidates.shape[1], addable
    )
    removed = candidates[:, :removals]
    added = _sample(pools, additions, room_beside(threat, removed), generator)
    return Perturbation(
        added_edges=added,
        removed_edges=_sorted(removed, graph.num_nodes),
        notes=shortfall(
            removals + added.shape[1],
            threat.edge_budget,
            reason_within(threat, f"edges to remove: {candidates.shape[1]}, to add: {addable}"),
        ),
    )


def most_additions(restrict: str, budget: int) -> int:
    """Return how many edges may be added: the whole budget, or none for `deletions`."""
    return 0 if restrict == "deletions" else budget


def split_budget(
    budget: int, removal_share: float, removable: int, addable: int
) -> tuple[int, int]:
    """Return numbers of removals and additions; what one kind cannot use goes to the other."""
    removals = min(int(removal_share * budget), removable)
    additions = min(budget - removals, addable)
    return min(budget - additions, removable), additions


def pairs_across(targets: Tensor, groups: Tensor, partners: Tensor) -> tuple[PairRanges, int]:
    """Return all pairs of a target and a partner of another group, edges or not, and their number.

    Args:
        targets: int64 [t].
        groups: int64 [N] on the CPU, 0 .. number of groups - 1.
        partners: bool [N]: all targets are among them, or none.
    """
    targets, is_target = targets.cpu(), mask_of(targets, groups.numel())
    order = groups.argsort(stable=True)
    order = order[partners[order]]
    count = int(groups.max()) + 1 if groups.numel() else 0
    sizes = torch.bincount(groups[order], minlength=count)
    size = sizes[groups[targets]]  # of each target's group, [t]
    start = (sizes.cumsum(0) - sizes)[groups[targets]]  # in the order, [t]
    # The partners before a target's own group, and those after it.
    begin = torch.cat([torch.zeros_like(start), start + size])
    end = torch.cat([start, torch.full_like(start, order.numel())])
    ranges = PairRanges(targets.repeat(2), begin, end, order, is_target)
    both = torch.bincount(groups[is_target & partners])
    twice = int(both.sum()) ** 2 - int((both**2).sum())  # pairs of two targets are listed twice
    return ranges, int((end - begin).sum()) - twice // 2


class _Pool:
    """Pairs that may be added between targets and some of the nodes."""

    def __init__(self, targets: Tensor, groups: Tensor, partners: Tensor, across: Tensor) -> None:
        is_target = mask_of(targets, groups.numel())
        first, second = across
        in_pool = (is_target[first] & partners[second]) | (is_target[second] & partners[first])
        self.taken = across[:, in_pool]
        self.pairs, count = pairs_across(targets, groups, partners)
        self.free = count - self.taken.shape[1]


def _sample(
    pools: Sequence[_Pool], count: int, room: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Return pairs int64 [2, a], a <= wanted, from each pool only what the ones before it lack.

    Args:
        pools: of pairs.
        count: as many pairs are returned if there are as many and nodes have room for them.
        room: int64 [N], pairs that each node has room for; None for no such bound.
        generator: the source of randomness.
    """
    result = []
    for pool in pools:
        part = min(count, pool.free)
        if room is None:
            pairs = pool.pairs.sample(part, pool.free, pool.taken, generator)
        else:
            drawn = min(SPARE * part, pool.free)
            pairs = pool.pairs.sample(drawn, pool.free, pool.taken, generator)
            pairs = pairs[:, torch.randperm(drawn, generator=generator)]
            pairs = pairs[:, within_capacity(pairs, room)][:, :part]
            room = room - torch.bincount(pairs.flatten(), minlength=room.numel())
            pairs = _sorted(pairs, room.numel())
        result.append(pairs)
        count -= pairs.shape[1]
    return torch.cat(result, dim=1)


def _by_preference(
    edges: Tensor, targets: Tensor, partners: Sequence[Tensor], generator: torch.Generator
) -> Tensor:
    """Return the edges in random order, those to the first partners first."""
    edges = edges[:, torch.randperm(edges.shape[1], generator=generator)]
    first, second = edges
    is_target = mask_of(targets, partners[0].numel())
    position = torch.full_like(first, len(partners))
    for rank, allowed in reversed(list(enumerate(partners))):
        position[(is_target[first] & allowed[second]) | (is_target[second] & allowed[first])] = rank
    return edges[:, position.argsort(stable=True)]


def _sorted(pairs: Tensor, num_nodes: int) -> Tensor:
    return pairs[:, (pairs[0] * num_nodes + pairs[1]).argsort()]
