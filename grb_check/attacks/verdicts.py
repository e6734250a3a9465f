"""What an attack that tries everything knows of each target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import Attack, Basis, DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat

Tell: TypeAlias = Callable[[float], None]  # is called with the share of the work that is done


def untold(_share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What is known of each target; all others that are right keep their class.

    Attributes:
        perturbation: for each target that falls a change under which it does.
        fallen: int64 [f], indices of these targets.
        sizes: int64 [f], number of changes to each.
        undecided: int64 [u], indices of targets of which nothing is known.
        tried: number of changes that were computed.
        basis: see `ExactTrials`.
        every: the changes that were tried, after "every": "flip".
        notes: what a reader has to know of the undecided ones.
    """

    perturbation: Perturbation
    fallen: Tensor
    sizes: Tensor
    undecided: Tensor
    tried: int
    basis: Basis
    every: str
    notes: tuple[str, ...] = ()


class ProvingAttack(Attack, Protocol):
    """An attack that says of each target whether it falls, and proves it of those that do not."""

    def verdicts(
        self, graph: Data, threat: Threat, model: DifferentiableModel, tell: Tell = untold
    ) -> Verdicts:
        """Return what is known of each target.

        Args:
            graph, threat, model: as those of `perturb`.
            tell: is told from time to time how far the search is.
        """
        ...
