"""Random edge flips, uniform over all pairs of nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, budgets_and_starts, edge_set
from grb_check.attacks.modification.shared.flips_at_targets import SPARE
from grb_check.attacks.modification.shared.removable import (
    reason_within,
    removable,
    shortfall,
    within_capacity,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat

_REASON: Final = "the graph has no other pair that may be flipped"


@dataclass(frozen=True, kw_only=True)
class ModificationRandomFlips:
    """Flips of pairs drawn uniformly from all pairs of nodes: the lower bound for global attacks.

    The random baseline of `On the Adversarial Robustness of Graph Contrastive Learning Methods
    <https://arxiv.org/abs/2311.17853>`_ (Guerranti et al. 2023). Most pairs of a sparse graph are
    not edges, so nearly all flips are additions, and few of them touch a target; RND in contrast
    removes as many edges as it adds, at targets only.

    If the targets are graphs, pairs are drawn inside each graph, within its own budget.

    Args:
        isolate: whether a node may lose its last edge.
    """

    isolate: bool = True

    name: ClassVar[str] = "random-flips"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip random pairs; neither labels, targets nor the model are used."""
        whole = edge_set(graph)
        codes, num_nodes = whole.codes.cpu(), whole.num_nodes
        if threat.batch is None:
            budgets, starts = torch.tensor([threat.edge_budget]), torch.tensor([0, num_nodes])
        else:
            budgets, starts = (tensor.cpu() for tensor in budgets_and_starts(threat))
        result = [codes[:0]]
        bounds = torch.searchsorted(codes, starts * num_nodes).tolist()
        for index, (start, budget) in enumerate(
            zip(starts.tolist(), budgets.tolist(), strict=False)
        ):
            size = int(starts[index + 1]) - start
            if not budget or size < 2:
                continue
            ends = whole.ends(codes[bounds[index] : bounds[index + 1]]) - start
            edges = EdgeSet(ends[0] * size + ends[1], size)
            room = None if threat.local_budgets is None else threat.local_budgets.cpu()
            owned = torch.arange(size) if threat.ends is None else threat.ends.cpu()
            flips = self._flips(edges, budget, owned, room, generator)
            result.append(whole.encode(edges.ends(flips) + start))
        flips = torch.cat(result)
        notes = shortfall(flips.numel(), int(budgets.sum()), reason_within(threat, _REASON))
        return EdgeSet(codes, num_nodes).perturbation(flips, notes)

    def _flips(
        self,
        clean: EdgeSet,
        budget: int,
        owned: Tensor,
        room: Tensor | None,
        generator: torch.Generator,
    ) -> Tensor:
        """Return codes of `budget` distinct pairs, or of all that may be flipped if fewer.

        Args:
            clean: edges of the graph.
            budget: number of pairs.
            owned: int64 [m], nodes of which every pair has one.
            room: int64 [N], most flips at each node; None for no such bound. `SPARE` times as many
                pairs of nodes with room are drawn, so that fewer may be found.
            generator: the source of randomness.
        """
        spare = 0 if self.isolate else clean.codes.numel()  # at most that many are rejected
        requested = budget
        if room is not None:  # of random pairs, those of two nodes with room are that share
            requested = math.ceil(
                SPARE * budget / max(1e-3, float((room > 0).double().mean())) ** 2
            )
        flips = _distinct_pairs(clean, owned, requested + spare, generator)
        if not self.isolate:
            present = clean.has(flips)
            stays = ~removable(clean.ends(flips[present]), clean.degrees(), isolate=False)
            flips = flips[~torch.isin(flips, flips[present][stays])]
        if room is not None:
            flips = flips[within_capacity(clean.ends(flips), room)]
        return flips[:budget]


def _distinct_pairs(
    edges: EdgeSet, owned: Tensor, count: int, generator: torch.Generator
) -> Tensor:
    """Return codes of `count` distinct pairs with an owned node, or of all of them if fewer."""
    num_nodes, others = edges.num_nodes, edges.num_nodes - owned.numel()
    every = num_nodes * (num_nodes - 1) // 2 - others * (others - 1) // 2
    if 2 * count >= every:
        pairs = torch.cartesian_prod(owned, torch.arange(num_nodes)).T
        codes: Tensor = torch.unique(edges.encode(pairs[:, pairs[0] != pairs[1]]))
        return codes[torch.randperm(every, generator=generator)[:count]]
    codes = torch.empty(0, dtype=torch.int64)
    while codes.numel() < count:
        ends = torch.randint(num_nodes, (2, 2 * count + 16), generator=generator)
        ends[0] = owned[ends[0] % owned.numel()]
        codes = torch.unique(torch.cat([codes, edges.encode(ends[:, ends[0] != ends[1]])]))
    return codes[torch.randperm(codes.numel(), generator=generator)[:count]]
