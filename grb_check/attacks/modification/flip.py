"""FLIP: edges flipped by the centrality of their ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.centrality import CENTRALITIES, as_integers
from grb_check.attacks.modification.shared.edge_set import adjacency_of, edges_at, mask_of
from grb_check.attacks.modification.shared.flips_at_targets import (
    SPARE,
    most_additions,
    split_budget,
)
from grb_check.attacks.modification.shared.pair_ranges import PairRanges
from grb_check.attacks.modification.shared.removable import (
    open_nodes,
    reason_within,
    room_beside,
    room_for_removals,
    shortfall,
    within_capacity,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_removal_share, check_restrict
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import choose

ORDERS: Final = ("ascending", "descending")


def count_pairs(targets: Tensor, num_nodes: int) -> int:
    """Return the number of pairs with a target end, edges or not; targets [t] are distinct."""
    count = targets.numel()
    return count * (num_nodes - count) + count * (count - 1) // 2


def lowest_pairs(
    scores: Tensor, targets: Tensor, edges: Tensor, count: int, generator: torch.Generator
) -> Tensor:
    """Return the non-edges with a target end that have the lowest sums of their ends' scores.

    Args:
        scores: int64 [N], non-negative.
        targets: int64 [t] on the CPU.
        edges: int64 [2, m], all edges with a target end, first < second.
        count: number of pairs; fewer are returned if there are fewer.
        generator: breaks ties between pairs of the highest sum.

    Returns:
        int64 [2, a], first < second; those below the highest sum first, each part sorted.
    """
    sums = _Sums(scores, targets, edges)
    count = min(count, sums.count_upto(sums.highest))
    if not count:
        return torch.empty((2, 0), dtype=torch.int64)
    low, high = -1, sums.highest  # the lowest sum with enough pairs is in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sums.count_upto(middle) >= count else (middle, high)
    below, upto = sums.count_upto(high - 1), sums.count_upto(high)
    is_target = mask_of(targets, scores.numel())
    start, middles = torch.zeros_like(targets), sums.partners_upto(high - 1)
    inner = PairRanges(targets, start, middles, sums.order, is_target)
    border = PairRanges(targets, middles, sums.partners_upto(high), sums.order, is_target)
    return torch.cat(
        [
            inner.sample(below, below, edges, generator),
            border.sample(count - below, upto - below, edges, generator),
        ],
        dim=1,
    )


class _Sums:
    """Numbers of pairs by their sum of scores."""

    def __init__(self, scores: Tensor, targets: Tensor, edges: Tensor) -> None:
        self.order = scores.argsort(stable=True)
        self._sorted = scores[self.order]
        self._of_targets = scores[targets]
        self._sorted_targets = self._of_targets.sort().values
        self._of_edges = scores[edges].sum(0).sort().values
        self.highest = 2 * int(scores.max()) if scores.numel() else -1

    def partners_upto(self, limit: int) -> Tensor:
        """Return how many nodes have a sum up to the limit with each target, int64 [t]."""
        return torch.searchsorted(self._sorted, limit - self._of_targets, right=True)

    def count_upto(self, limit: int) -> int:
        """Return the number of non-edges with a target end and a sum up to the limit."""
        rest = limit - self._of_targets
        pairs = int(self.partners_upto(limit).sum())
        of_targets = int(torch.searchsorted(self._sorted_targets, rest, right=True).sum())
        loops = int((rest >= self._of_targets).sum())
        edges = int(torch.searchsorted(self._of_edges, limit, right=True))
        return pairs - loops - (of_targets - loops) // 2 - edges


@dataclass(frozen=True, kw_only=True)
class ModificationFlip:
    """Remove and add edges at the least central nodes, or remove them at the most central.

    The baselines of `Adversarial Attacks on Node Embeddings via Graph Poisoning
    <https://arxiv.org/abs/1809.01093>`_ (Bojchevski & Günnemann 2019, section 5), which rank flips
    by the centrality of both ends together, and GRB's FLIP (Zheng et al. 2021, appendix A.4.2),
    which "ranks all nodes in ascending order according to their degrees, then flips their edges".
    The score of a pair is the sum of its ends' centralities:

    * Additions use the degree in the complement graph, as the paper's do, so the pairs of lowest
      sum come first. All pairs with a target end that are not edges compete, without listing them.
    * Removals: GRB's text ranks ascending, its code descending by default; the paper's code has
      both. Ascending is the default here, because a model needs most the edges of nodes that have
      few.

    Ties are broken at random. With 263 flips on Cora, GCNs keep on average, of 85.6 %:

    * by degree, ascending: 81.4 with half additions, 82.7 with deletions, 82.9 with additions;
    * by eigenvector: 82.4, 83.1, 83.0;
    * by betweenness: 82.1, 84.0, 83.0;
    * by degree, descending, with deletions, as GRB's code does: 84.5.

    Args:
        centrality: `degree`, `eigenvector` or `betweenness` (from sampled sources).
        order: of removals, `ascending` or `descending`. (our choice)
        removal_share: part of the budget spent on removals, rounded down. (our choice)
        restrict: `none`, or `deletions` for removals only.
        isolate: whether a node may lose its last edge. (GRB's default is False)
    """

    centrality: str = "degree"
    order: str = "ascending"
    removal_share: float = 0.5
    restrict: str = "none"
    isolate: bool = True

    name: ClassVar[str] = "flip"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        choose("centrality", self.centrality, tuple(CENTRALITIES))
        choose("order", self.order, ORDERS)
        check_removal_share(self.removal_share)
        check_restrict(self.restrict)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip edges by centrality; neither labels nor the model are used."""
        budget, targets = threat.edge_budget, threat.targets.cpu()
        edges = edges_at(graph, targets)
        scores = as_integers(CENTRALITIES[self.centrality](adjacency_of(graph), generator))
        edges = edges[:, torch.randperm(edges.shape[1], generator=generator)]
        descending = self.order == "descending"
        removals = edges[:, scores[edges].sum(0).argsort(descending=descending, stable=True)]
        room = room_for_removals(graph, threat, isolate=self.isolate)
        removals = removals[:, within_capacity(removals, room)]
        free = count_pairs(targets, graph.num_nodes) - edges.shape[1]
        addable = min(free, most_additions(self.restrict, budget))
        removed, added = split_budget(budget, self.removal_share, removals.shape[1], addable)
        additions = self._additions(graph, threat, scores, removals[:, :removed], added, generator)
        return Perturbation(
            added_edges=additions,
            removed_edges=removals[:, :removed],
            notes=shortfall(
                removed + additions.shape[1],
                budget,
                reason_within(threat, f"edges to remove: {removals.shape[1]}, to add: {addable}"),
            ),
        )

    def _additions(
        self,
        graph: Data,
        threat: Threat,
        scores: Tensor,
        removed: Tensor,
        count: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Return the pairs int64 [2, a] of lowest sum, for which the nodes have room."""
        targets, is_open = open_nodes(threat, graph.num_nodes)
        edges, room = edges_at(graph, targets), room_beside(threat, removed)
        if room is None:
            return lowest_pairs(scores, targets, edges, count, generator)
        closed_last = torch.where(is_open, scores, 2 * scores.max() + 1)
        pairs = lowest_pairs(closed_last, targets, edges, SPARE * count, generator)
        pairs = pairs[:, torch.randperm(pairs.shape[1], generator=generator)]
        pairs = pairs[:, closed_last[pairs].sum(0).argsort(stable=True)]
        return pairs[:, within_capacity(pairs, room)][:, :count]
