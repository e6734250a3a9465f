"""What the harness asks of an attack, and what it gives to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat


class DifferentiableModel(Protocol):
    """The surrogate or the victim as attacks see it: evaluation mode, parameters frozen."""

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes], differentiable in `x` (and `edge_weight`)."""
        ...

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int
    ) -> Callable[[Tensor], Tensor]:
        """The map from the features of injected nodes to all logits, everything else being fixed.

        What does not depend on those features is computed once.

        Args:
            x: float32 [N, d], features of the existing nodes.
            edge_index: int64 [2, e], edges of the attacked graph of N + count nodes.
            count: injected nodes.

        Returns:
            From float32 [count, d] to float [N + count, num_classes].
        """
        ...


@runtime_checkable
class Attack(Protocol):
    """One attack. Hyper-parameters are a frozen dataclass, data come with the call.

    Attributes:
        name: as in case ids.
        scenario: `modification` or `injection`.
        knowledge: `black-box` attacks are given the surrogate, `white-box` ones the victim.
        version: part of the store's key; raised whenever the attack's output changes.
    """

    @property
    def name(self) -> str: ...
    @property
    def scenario(self) -> Scenario: ...
    @property
    def knowledge(self) -> Knowledge: ...
    @property
    def version(self) -> int: ...

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
                `y` int64 [N]: true labels of training and validation nodes, the model's
                predictions for all others, never the true labels of test nodes.
            threat: targets and budgets.
            model: what the attack may differentiate through.
            generator: a CPU generator, the only source of randomness.

        Returns:
            A perturbation within the threat.
        """
        ...
