"""A trained victim before the clean graph and before what a perturbation makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.evaluation.own_models import Ready, predict


@dataclass(frozen=True)
class Scene:
    """One repeat of a case without its attack.

    Attributes:
        ready: the victim.
        graph: the clean graph, on the victim's device.
        threat: what was allowed, with the targets.
        seed: of the repeat, for models that draw in their forward.
    """

    ready: Ready
    graph: Data
    threat: Threat
    seed: int

    @property
    def targets(self) -> Tensor:
        """int64 [t], on the CPU."""
        return self.threat.targets.cpu()

    @property
    def classes(self) -> Tensor:
        """int64 [t], the true ones."""
        found: Tensor = self.graph.y.cpu()[self.targets]
        return found

    @property
    def before(self) -> Tensor:
        """int64 [t], the predicted classes of the targets on the clean graph."""
        return self.ready.predicted[self.targets]

    def after(self, perturbation: Perturbation) -> Tensor:
        """int64 [t], the predicted classes of the targets on the attacked graph."""
        attacked = apply(self.graph, perturbation)
        return predict(self.ready.victim, attacked, self.seed)[self.targets]

    def accuracy(self, predicted: Tensor) -> float:
        """Share of the targets int64 [t] that are classified correctly."""
        return float((predicted == self.classes).numpy().mean())  # as outcomes have it
