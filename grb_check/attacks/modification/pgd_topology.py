"""PGD on the topology: relaxed flips of all pairs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.answer_search import polished
from grb_check.attacks.modification.shared.best_flips import best_flips
from grb_check.attacks.modification.shared.edge_search import search_graph
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_sources import (
    Aim,
    flip_source,
    has_all_pair_gradients,
)
from grb_check.attacks.modification.shared.greedy import SearchSpace
from grb_check.attacks.modification.shared.relaxation import Block, ascend, gains_of, rounded
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import (
    check_at_least,
    check_gradient_settings,
    check_positive,
)
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import GradientError

REACH: Final = 8  # pairs of weight 0 considered in a step, for each flip of the budget

_Gains = tuple[Block, Tensor]
_GainsAt = Callable[[Block], _Gains]


@dataclass(frozen=True, kw_only=True)
class ModificationPgdTopology:
    r"""Projected gradient descent on the relaxed adjacency.

    `Topology Attack and Defense for Graph Neural Networks <https://arxiv.org/abs/1906.04214>`_ (Xu
    et al. 2019, algorithm 1): weights :math:`0 \le s \le 1` of the flips of all pairs,
    :math:`\sum s \le` budget, follow the gradient and are projected after each step; in the end
    they are rounded, see `relaxation.rounded`.

    There is no array of all pairs: the projection keeps most weights at 0, so the gradient is only
    needed for weights above 0 and for the `REACH` times budget other pairs of largest gain, which
    are found exactly (`best_flips`). For a model without gradients of all pairs, the same is done
    on one random block of `block_size` pairs.

    The objective is `held_margin` (our choice); the paper's are the cross-entropy and the margin.
    The step size is relative to the gradient, see `flip_weights.stepped`; the paper's is
    :math:`200 / \sqrt{t}` for all graphs.

    If the targets are graphs, each has its own weights, projection and rounding, see
    `graph_sets.attacks`.

    Args:
        iterations: number of steps.
        step_size: see `flip_weights.stepped`.
        samples: random roundings (the paper's K).
        polish: work of a search by answers from the flips found (`answer_search`), in forward
            passes; `+polish` sets 1000. A set of graphs has none.
        block_size, objective, isolate, surrogates, knowledge: see `edge_search.EdgeSearchSettings`.
    """

    iterations: int = 100
    step_size: float = 0.5
    block_size: int = 20_000
    samples: int = 20
    objective: str = "held_margin"
    isolate: bool = True
    polish: int = 0
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "white-box"

    name: ClassVar[str] = "pgd-topology"
    scenario: ClassVar[Scenario] = MODIFICATION
    version: ClassVar[int] = 4

    def __post_init__(self) -> None:
        check_gradient_settings(self)
        check_at_least(1, self, "iterations", "block_size")
        check_at_least(0, self, "polish")
        check_positive(self, "step_size")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip any pairs of nodes.

        Raises:
            GradientError: the model has no gradient for edges.
        """

        def find(clean: EdgeSet, aim: Aim) -> Tensor:
            source, budget = flip_source(aim, clean, self.block_size, generator), threat.edge_budget
            space = SearchSpace(clean, source, self.isolate, threat.local_budgets)
            relaxed = self._search(self._gains_at(space, aim, budget), space, aim, budget)
            flips = rounded(relaxed, space, aim, budget, self.samples, generator)
            return polished(flips, aim, space, budget, self.polish, generator)

        return search_graph(graph, threat, model, self, find)

    def _gains_at(self, space: SearchSpace, aim: Aim, budget: int) -> _GainsAt:
        clean, nodes = space.clean, None if space.room is None else space.room > 0
        ones = torch.ones(2 * clean.codes.numel(), dtype=aim.x.dtype, device=aim.x.device)
        if has_all_pair_gradients(aim, clean, ones):
            return _gains_of_all_pairs(clean, aim, REACH * budget, nodes)
        block = space.source(clean, clean.codes.new_empty(0), self.block_size, nodes).codes
        return _gains_of_block(block, clean, aim)

    def _search(self, gains_at: _GainsAt, space: SearchSpace, aim: Aim, budget: int) -> Block:
        relaxed = Block(aim.rows.new_empty(0), aim.x.new_empty(0))
        for iteration in range(self.iterations):
            wider, gains = gains_at(relaxed)
            if not wider.codes.numel():
                break
            relaxed = ascend(wider, gains, space, budget, self.step_size, iteration)
            relaxed = relaxed.without_negligible()
        return relaxed


def _gains_of_all_pairs(clean: EdgeSet, aim: Aim, reach: int, nodes: Tensor | None) -> _GainsAt:
    """Return gains of the relaxed flips and of the `reach` other pairs of largest gain.

    Both ends of these are among `nodes`, bool [N], if given.
    """

    def gains_at(relaxed: Block) -> _Gains:
        edges, weights = clean.partly_flipped(relaxed.codes, relaxed.weights)
        gradients = aim.model.pair_gradients(
            aim.x, edges.edge_index(), aim.targets, aim.value, weights.repeat(2)
        )
        if gradients is None:
            raise GradientError(
                "the model has gradients of pairs, but not for weighted edges; leave the attack out"
            )
        others = best_flips(gradients, clean, aim.rows, relaxed.codes, reach, nodes)
        pair_gains = gradients.at(clean.ends(relaxed.codes))
        pair_gains = torch.where(clean.has(relaxed.codes), -pair_gains, pair_gains)
        return relaxed.joined(others.codes), torch.cat([pair_gains, others.gains])

    return gains_at


def _gains_of_block(block: Tensor, clean: EdgeSet, aim: Aim) -> _GainsAt:
    """Return gains of the pairs with these codes only."""
    codes = block.sort().values
    gains = gains_of(Block(codes, torch.zeros_like(codes, dtype=aim.x.dtype)), clean, aim)

    def gains_at(relaxed: Block) -> _Gains:
        weights = torch.zeros_like(codes, dtype=aim.x.dtype)
        weights[torch.searchsorted(codes, relaxed.codes)] = relaxed.weights
        return Block(codes, weights), gains(weights)

    return gains_at
