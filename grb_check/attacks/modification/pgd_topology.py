"""PGD on the topology: relaxed flips of all pairs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.best_flips import best_flips
from grb_check.attacks.edges.edge_search import (
    aim_of,
    check_edge_search,
    check_step_size,
    unused,
)
from grb_check.attacks.edges.edge_set import EdgeSet, edge_set
from grb_check.attacks.edges.flip_sources import (
    Aim,
    FlipSource,
    flip_source,
    tells_all_pairs,
)
from grb_check.attacks.edges.greedy import Plan
from grb_check.attacks.edges.relaxation import Relaxed, ascend, gains_of, rounded
from grb_check.attacks.graph_sets.pgd_topology import descent_in_each
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat
from grb_check.errors import GradientError

REACH: Final = 8  # pairs of weight 0 looked at in a step, for each of the budget

_Gains = tuple[Relaxed, Tensor]
_GainsAt = Callable[[Relaxed], _Gains]


@dataclass(frozen=True, kw_only=True)
class ModificationPgdTopology:
    r"""Projected gradient descent on the relaxed adjacency.

    `Topology Attack and Defense for Graph Neural Networks <https://arxiv.org/abs/1906.04214>`_ (Xu
    et al. 2019, algorithm 1): weights :math:`0 \le s \le 1` of the flips of all pairs,
    :math:`\sum s \le` budget, follow the gradient and are projected after each step; in the end
    they are rounded, see `relaxation.rounded`.

    There is no array of all pairs: the projection keeps most weights at 0, so that the gradient is
    needed at those above 0 and at the `REACH` times budget other pairs of largest gain, which are
    found exactly (`best_flips`). Against a model that does not tell the gradients of all pairs it
    is the same on one random block of `block_size`.

    The objective is `held_margin` (our choice); the paper's are the cross-entropy and the margin.
    The size of a step is relative to the gradient, see `relaxation.ascend`; the paper's is
    :math:`200 / \sqrt{t}` for all graphs.

    Where the targets are graphs, each has its own weights, projection and rounding
    (`graph_sets.pgd_topology`); a budget of one flip is spent on the strongest of many that are
    tried.

    Args:
        iterations: steps.
        step_size: see `relaxation.ascend`.
        block_size: random pairs, where all cannot be had.
        samples: random roundings (the paper's K).
        objective: a name from `objectives.OBJECTIVES`.
        isolate: whether a node may lose its last edge.
        surrogates: models that are attacked together when black-box.
        knowledge: `white-box` or `black-box`.
    """

    iterations: int = 100
    step_size: float = 0.5
    block_size: int = 20_000
    samples: int = 20
    objective: str = "held_margin"
    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "white-box"

    name: ClassVar[str] = "pgd-topology"
    scenario: ClassVar[Scenario] = "modification"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_edge_search(self, iterations=self.iterations, block_size=self.block_size)
        check_step_size(self.step_size)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip any pairs of nodes.

        Raises:
            GradientError: the model gives no gradient for edges.
        """
        if threat.batch is not None:
            return descent_in_each(
                graph,
                threat,
                model,
                generator,
                iterations=self.iterations,
                step_size=self.step_size,
                block_size=self.block_size,
                samples=self.samples,
                objective=self.objective,
                isolate=self.isolate,
            )
        budget = threat.edge_budget
        if not budget or not threat.targets.numel() or graph.num_nodes < 2:
            return Perturbation(notes=unused(threat, 0))
        clean = edge_set(graph)
        everywhere = torch.arange(graph.num_nodes, device=graph.x.device)
        aim = aim_of(graph, threat, model, self.objective, everywhere)
        source = flip_source(aim, clean, self.block_size, generator)
        gains_at = self._gains_at(clean, aim, source, budget)
        relaxed = self._search(gains_at, clean, budget)
        plan = Plan(clean, source, self.isolate)
        flips = rounded(relaxed, plan, aim, budget, self.samples, generator)
        return clean.perturbation(flips, unused(threat, flips.numel()))

    def _gains_at(self, clean: EdgeSet, aim: Aim, source: FlipSource, budget: int) -> _GainsAt:
        ones = torch.ones(2 * clean.codes.numel(), dtype=aim.x.dtype, device=aim.x.device)
        if tells_all_pairs(aim, clean, ones):
            return _gains_of_all_pairs(clean, aim, REACH * budget)
        block = source(clean, clean.codes.new_empty(0), self.block_size).codes
        return _gains_of_block(block, clean, aim)

    def _search(self, gains_at: _GainsAt, clean: EdgeSet, budget: int) -> Relaxed:
        relaxed = Relaxed(clean.codes.new_empty(0), torch.empty(0, device=clean.codes.device))
        for iteration in range(self.iterations):
            wider, gains = gains_at(relaxed)
            if not wider.codes.numel():
                break
            relaxed = ascend(wider, gains, budget, self.step_size, iteration).without_negligible()
        return relaxed


def _gains_of_all_pairs(clean: EdgeSet, aim: Aim, reach: int) -> _GainsAt:
    """Gains at the flips, and at the `reach` other pairs of largest gain."""
    every_node = torch.arange(clean.num_nodes, device=clean.codes.device)

    def gains_at(relaxed: Relaxed) -> _Gains:
        present = clean.has(relaxed.codes)
        added = relaxed.codes[~present]
        codes = torch.cat([clean.codes, added]).sort().values
        weights = torch.ones_like(codes, dtype=aim.x.dtype)
        weights[torch.searchsorted(codes, relaxed.codes)] = torch.where(
            present, 1 - relaxed.weights, relaxed.weights
        )
        edges = EdgeSet(codes, clean.num_nodes)
        gradients = aim.model.pair_gradients(
            aim.x, edges.edge_index(), aim.targets, aim.value, weights.repeat(2)
        )
        if gradients is None:
            raise GradientError("the model tells no gradients of pairs for weighted edges")
        others = best_flips(gradients, clean, every_node, relaxed.codes, reach)
        own = gradients.at(clean.ends(relaxed.codes))
        wider = relaxed.joined(others.codes)
        return wider, torch.cat([torch.where(present, -own, own), others.gains])

    return gains_at


def _gains_of_block(block: Tensor, clean: EdgeSet, aim: Aim) -> _GainsAt:
    """Gains at the pairs with these codes alone."""
    codes = block.sort().values
    gains = gains_of(Relaxed(codes, torch.zeros_like(codes, dtype=aim.x.dtype)), clean, aim)

    def gains_at(relaxed: Relaxed) -> _Gains:
        weights = torch.zeros_like(codes, dtype=aim.x.dtype)
        weights[torch.searchsorted(codes, relaxed.codes)] = relaxed.weights
        return Relaxed(codes, weights), gains(weights)

    return gains_at
