"""Random edge flips: every pair of nodes is as likely as any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.edges.edge_set import EdgeSet, edge_set
from grb_check.attacks.edges.removable import shortfall
from grb_check.attacks.edges.uniform_pairs import REASON, random_pairs
from grb_check.attacks.graph_sets.random_flips import flips_in_each
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationRandomFlips:
    """Flips of pairs drawn uniformly from all pairs of nodes: the floor for global attacks.

    The random baseline of `On the Adversarial Robustness of Graph Contrastive Learning Methods
    <https://arxiv.org/abs/2311.17853>`_ (Guerranti et al. 2023). As nearly all pairs of a sparse
    graph are no edges, nearly all flips are additions, and few of them touch a target; RND draws
    half removals, at targets only.

    Where the targets are graphs, pairs are drawn from those inside each, within its own budget.

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
        if threat.batch is not None:
            return flips_in_each(graph, threat, generator, isolate=self.isolate)
        clean = edge_set(graph)
        clean = EdgeSet(clean.codes.cpu(), clean.num_nodes)
        flips = random_pairs(clean, threat.edge_budget, generator, isolate=self.isolate)
        return clean.perturbation(flips, shortfall(flips.numel(), threat.edge_budget, REASON))
