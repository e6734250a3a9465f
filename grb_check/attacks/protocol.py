"""What the harness asks of an attack, and what it gives to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.pair_gradients import PairGradients
from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


class DifferentiableModel(Protocol):
    """The surrogate or the victim as attacks see it: evaluation mode, parameters frozen."""

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes], differentiable in `x` (and `edge_weight`)."""
        ...

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """The map from the features of injected nodes to logits of targets, all else being fixed.

        What does not depend on those features is computed once, where the model allows that.

        Args:
            x: float32 [N, d], features of the existing nodes.
            edge_index: int64 [2, e], edges of the attacked graph of N + count nodes.
            count: injected nodes.
            targets: int64 [t], distinct nodes; mostly existing ones.

        Returns:
            From float32 [count, d] to float [t, num_classes].
        """
        ...

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        """The map from features of injected nodes and weights of their links to logits of targets.

        Args:
            x: float32 [N, d], features of the existing nodes.
            edge_index: int64 [2, e], edges of the clean graph.
            count: n, injected nodes.
            candidates: int64 [m], distinct existing nodes to link to.
            targets: int64 [t], distinct existing nodes.

        Returns:
            From float32 [n, d] and weights float32 [n, m] to float [t, num_classes], with weights
            of 1 and 0 for a link and none; None where the model does not take weights so, or not
            for that many links.
        """
        ...

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """The map from weights of pairs of existing nodes to logits of targets.

        Args:
            x: float32 [N, d], features, fixed.
            edge_index: int64 [2, 2E], both directions of each edge of the clean graph.
            pairs: int64 [2, m], undirected, each once, first < second. A pair that is an edge has
                its weight instead of the 1 that all other edges have.
            targets: int64 [t], distinct nodes.

        Returns:
            From float32 [m] to float [t, num_classes], with weights of 1 and 0 for an edge and
            none; None where the model does not take weights so.
        """
        ...

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        """The gradient of an objective with respect to the weight of every pair of nodes.

        Args:
            x: float32 [N, d].
            edge_index: int64 [2, 2E], both directions of each edge of the graph as it is now.
            targets: int64 [t], distinct nodes.
            objective: from logits float [t, num_classes] to a scalar.
            edge_weight: float32 [2E], the same in both directions; 1 where it is not given.

        Returns:
            None for a model whose layers do not tell it.
        """
        ...


def members(model: DifferentiableModel) -> tuple[DifferentiableModel, ...]:
    """The models of an ensemble, over which attacks average their objective, or the model alone."""
    found: tuple[DifferentiableModel, ...] = getattr(model, "members", (model,))
    return found


@runtime_checkable
class Attack(Protocol):
    """One attack: any object with these attributes, a user's too.

    The harness's own ones are frozen dataclasses whose fields are their hyper-parameters; data come
    with the call. Such a class, if it has a `version` besides (a number, raised whenever the output
    changes), has its perturbations kept in the store; what other objects return is never stored.

    Attributes:
        name: as in case ids.
        scenario: `modification` or `injection`.
        knowledge: `black-box` attacks are given the surrogate, `white-box` ones the victim.
    """

    @property
    def name(self) -> str: ...
    @property
    def scenario(self) -> Scenario: ...
    @property
    def knowledge(self) -> Knowledge: ...

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Attack `threat.targets` of `graph`.

        Args:
            graph: `x` float32 [N, d], `edge_index` int64 [2, 2E] (both directions of each edge),
                `y` int64 [N]: true labels of training and validation nodes and the model's
                predictions for all others; for white-box attacks, true labels of test nodes too.
            threat: targets and budgets.
            model: what the attack may differentiate through.
            generator: a CPU generator, the only source of randomness.

        Returns:
            A perturbation within the threat.
        """
        ...
