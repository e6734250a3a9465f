"""Random edge flips: every pair of nodes is as likely as any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.edge_set import EdgeSet, edge_set
from grb_check.attacks.modification.removable import removable, shortfall
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationRandomFlips:
    """Flips of pairs drawn uniformly from all pairs of nodes: the floor for global attacks.

    The random baseline of `On the Adversarial Robustness of Graph Contrastive Learning Methods
    <https://arxiv.org/abs/2311.17853>`_ (Guerranti et al. 2023). As nearly all pairs of a sparse
    graph are no edges, nearly all flips are additions, and few of them touch a target; RND draws
    half removals, at targets only.

    Args:
        isolate: whether a node may lose its last edge.
    """

    isolate: bool = True

    name: ClassVar[str] = "random-flips"
    scenario: ClassVar[Scenario] = "modification"
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
        clean = edge_set(graph)
        clean = EdgeSet(clean.codes.cpu(), clean.num_nodes)
        spare = 0 if self.isolate else clean.codes.numel()  # no more can be passed over
        flips = _distinct_pairs(clean, threat.edge_budget + spare, generator)
        if not self.isolate:
            present = clean.has(flips)
            stays = ~removable(clean.ends(flips[present]), clean.degrees(), isolate=False)
            flips = flips[~torch.isin(flips, flips[present][stays])]
        flips = flips[: threat.edge_budget]
        reason = "the graph has no other pair that may be flipped"
        return clean.perturbation(flips, shortfall(flips.numel(), threat.edge_budget, reason))


def _distinct_pairs(edges: EdgeSet, count: int, generator: torch.Generator) -> Tensor:
    """Codes of `count` distinct pairs of nodes, or of all where there are fewer."""
    num_nodes = edges.num_nodes
    every = num_nodes * (num_nodes - 1) // 2
    if 2 * count >= every:
        pairs = torch.triu_indices(num_nodes, num_nodes, offset=1)
        codes = edges.encode(pairs)
        return codes[torch.randperm(every, generator=generator)[:count]]
    codes = torch.empty(0, dtype=torch.int64)
    while codes.numel() < count:
        ends = torch.randint(num_nodes, (2, 2 * count + 16), generator=generator)
        codes = torch.unique(torch.cat([codes, edges.encode(ends[:, ends[0] != ends[1]])]))
    return codes[torch.randperm(codes.numel(), generator=generator)[:count]]
