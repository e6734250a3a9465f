"""Uniformly chosen edges to remove and to add, at targets, without N x N arrays."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import UsageError


def check_share(removal_share: float) -> None:
    """Raise `UsageError` unless the share of removals is in [0, 1]."""
    if not 0.0 <= removal_share <= 1.0:
        raise UsageError(f"removal_share is {removal_share}, allowed is 0 to 1")


def random_flips(
    graph: Data,
    threat: Threat,
    *,
    groups: Tensor,
    remove_within: bool,
    removal_share: float,
    generator: torch.Generator,
) -> Perturbation:
    """Spend the edge budget on random edges with at least one target end.

    Args:
        graph: clean graph.
        threat: targets and edge budget.
        groups: int64 [N] on the CPU, 0 .. number of groups - 1: edges are added between nodes of
            different groups only.
        remove_within: remove edges inside one group only; otherwise any.
        removal_share: part of the budget for removals, rounded down. What one kind has no
            candidates for goes to the other; what neither can use is noted.
        generator: the source of randomness.
    """
    edges = _edges_at(graph, threat.targets)
    across = groups[edges[0]] != groups[edges[1]]
    removable = edges[:, ~across] if remove_within else edges
    pairs = _PairsAcross(threat.targets, groups)
    free = pairs.count() - int(across.sum())

    budget = threat.edge_budget
    removals = min(int(removal_share * budget), removable.shape[1])
    additions = min(budget - removals, free)
    removals = min(budget - additions, removable.shape[1])
    notes: tuple[str, ...] = ()
    if removals + additions < budget:
        notes = (
            f"{removals + additions} of {budget} edge changes used: there are "
            f"{removable.shape[1]} edges to remove and {free} to add",
        )
    chosen = torch.randperm(removable.shape[1], generator=generator)[:removals]
    return Perturbation(
        added_edges=pairs.sample(additions, free, edges[:, across], generator),
        removed_edges=removable[:, chosen.sort().values],
        notes=notes,
    )


def _edges_at(graph: Data, targets: Tensor) -> Tensor:
    """Edges with a target end, int64 [2, m], first < second, on the CPU."""
    edges: Tensor = graph.edge_index.cpu()
    is_target = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_target[targets.cpu()] = True
    keep = (edges[0] < edges[1]) & (is_target[edges[0]] | is_target[edges[1]])
    return edges[:, keep]


class _PairsAcross:
    """All node pairs of different groups with a target end, edges or not, by rank.

    A rank stands for a target and one of its partners, so a pair of two targets has two ranks;
    only the one which names the smaller id first counts.
    """

    def __init__(self, targets: Tensor, groups: Tensor) -> None:
        self._targets = targets.cpu()
        self._num_nodes = groups.numel()
        self._is_target = torch.zeros(self._num_nodes, dtype=torch.bool)
        self._is_target[self._targets] = True
        self._by_group = groups.argsort(stable=True)
        sizes = torch.bincount(groups)
        self._size = sizes[groups[self._targets]]  # of each target's group, [t]
        self._start = (sizes.cumsum(0) - sizes)[groups[self._targets]]  # in _by_group, [t]
        self._end = (self._num_nodes - self._size).cumsum(0)  # ranks up to each target, [t]
        self._ranks = int(self._end[-1]) if self._end.numel() else 0
        target_sizes = torch.bincount(groups[self._targets])
        twice = self._targets.numel() ** 2 - int((target_sizes**2).sum())
        self._count = self._ranks - twice // 2

    def count(self) -> int:
        return self._count

    def sample(self, wanted: int, free: int, taken: Tensor, generator: torch.Generator) -> Tensor:
        """`wanted` of the `free` pairs that are not `taken` [2, m], int64 [2, wanted], sorted."""
        if not wanted:
            return torch.empty((2, 0), dtype=torch.int64)
        taken_codes = taken[0] * self._num_nodes + taken[1]
        if 2 * wanted > free or 4 * free < self._ranks:
            # Enumerating takes memory of the order of wanted + taken here, since
            # ranks <= 2 * (free + taken); drawing would meet few new pairs.
            found = self._new_codes(torch.arange(self._ranks), taken_codes)
        else:
            found = torch.empty(0, dtype=torch.int64)
            while found.numel() < wanted:
                draws = 64 + 4 * (wanted - found.numel())
                ranks = torch.randint(self._ranks, (draws,), generator=generator)
                found = torch.unique(torch.cat([found, self._new_codes(ranks, taken_codes)]))
        chosen = found[torch.randperm(found.numel(), generator=generator)[:wanted]].sort().values
        return torch.stack([chosen // self._num_nodes, chosen % self._num_nodes])

    def _new_codes(self, ranks: Tensor, taken_codes: Tensor) -> Tensor:
        """Codes first * N + second of the pairs at `ranks` that count and are not taken."""
        which = torch.searchsorted(self._end, ranks, right=True)
        place = ranks - self._end[which] + self._num_nodes - self._size[which]
        place = torch.where(place < self._start[which], place, place + self._size[which])
        target, partner = self._targets[which], self._by_group[place]
        counts = ~self._is_target[partner] | (target < partner)
        ends = torch.stack([target, partner])[:, counts]
        codes = ends.amin(0) * self._num_nodes + ends.amax(0)
        return codes[~torch.isin(codes, taken_codes)]
