"""L1D-RND: at each target random flips, each with the most prominent node of a random sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import degrees_of
from grb_check.attacks.modification.shared.removable import (
    Neighbours,
    neighbours_in,
    on_cpu,
    shortfall,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, joined
from grb_check.errors import UsageError

FEW: Final = 5  # neighbours up to which all are considered


@dataclass(frozen=True, kw_only=True)
class ModificationL1dRnd:
    """Link each target to nodes of high degree, and take edges to rich neighbourhoods from it.

    The baseline of `Adversarial Graph Neural Network Benchmarks
    <https://arxiv.org/abs/2605.05534>`_ (Ngo et al. 2026), as in its code (`RandomDegreeAttack`),
    which the paper's figures are from: each flip is an addition or a removal with equal
    probability. An addition links the target to the node of highest degree in a random sample of
    the others. A removal takes the neighbour, of a random sample if there are many, whose closed
    neighbourhood has the features of largest Frobenius norm. Neither takes the last edge of a node.
    If only one kind is possible, all flips are of that kind.

    Args:
        share: of the other nodes, and of many neighbours, in a sample. (the code's r)
        isolate: whether a node may lose its last edge.
    """

    share: float = 0.5
    isolate: bool = False

    name: ClassVar[str] = "l1d-rnd"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UsageError(f"share is {self.share}; it must be above 0 and at most 1")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip edges at each target; neither labels nor the model are used."""
        budgets = threat.budgets_of_targets().tolist()
        graph = on_cpu(graph)
        degrees = degrees_of(graph)
        energy = graph.x.double().square().sum(1)
        row, column = graph.edge_index
        norms = energy.index_add(0, row, energy[column])  # of closed neighbourhoods
        neighbours = neighbours_in(graph)
        parts = [
            self._flips(target, budget, degrees, norms, neighbours, generator)
            for target, budget in zip(threat.targets.tolist(), budgets, strict=True)
        ]
        used = sum(part.added_edges.shape[1] + part.removed_edges.shape[1] for part in parts)
        return joined(parts, shortfall(used, sum(budgets), "no other edge may be flipped"))

    def _flips(
        self,
        target: int,
        budget: int,
        degrees: Tensor,
        norms: Tensor,
        neighbours: Neighbours,
        generator: torch.Generator,
    ) -> Perturbation:
        near = neighbours.of(target)
        linkable = torch.ones_like(degrees, dtype=torch.bool)
        linkable[near] = linkable[target] = False
        allowed = near if self.isolate else near[degrees[near] > 1]
        removable = torch.zeros_like(linkable)
        removable[allowed] = True
        most = near.numel() if self.isolate else near.numel() - 1
        added: list[int] = []
        removed: list[int] = []
        while len(added) + len(removed) < budget:
            can_remove = len(removed) < most + len(added) and bool(removable.any())
            can_add = bool(linkable.any())
            if not can_add and not can_remove:
                break
            heads = bool(torch.rand((), generator=generator) < 0.5)
            adds = can_add and (heads or not can_remove)
            open_nodes = (linkable if adds else removable).nonzero().squeeze(1)
            sample = self._sample(open_nodes, 0 if adds else FEW, generator)
            best = int(sample[(degrees if adds else norms)[sample].argmax()])
            (added if adds else removed).append(best)
            linkable[best] = removable[best] = False
        return Perturbation(
            added_edges=_pairs(target, added), removed_edges=_pairs(target, removed)
        )

    def _sample(self, nodes: Tensor, few: int, generator: torch.Generator) -> Tensor:
        """Return a random share of the nodes in random order; all if that is no more than `few`."""
        count = max(1, int(self.share * nodes.numel()))
        order = torch.randperm(nodes.numel(), generator=generator)
        return nodes[order if count <= few else order[:count]]


def _pairs(target: int, others: list[int]) -> Tensor:
    """Return the pairs of the target with others, int64 [2, m], first < second."""
    nodes = torch.tensor(others, dtype=torch.int64)
    return torch.stack([nodes.clamp(max=target), nodes.clamp(min=target)])
