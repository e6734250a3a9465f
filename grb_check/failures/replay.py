"""The victim of a failed case again: any perturbation can be applied to it and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.budgets import threat_of
from grb_check.attacks.scenarios import POISONING
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.cases.target_weights import right_share
from grb_check.datasets import Source
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.evaluation.after_attack import predicted_after, predicted_if_poisoned
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.victims.subject import Subject


@dataclass(frozen=True)
class Replay:
    """One repeat of a case without its attack.

    Attributes:
        model: the victim.
        graph: the clean graph, on the victim's device.
        threat: of the case, with the targets.
        seed: of the repeat, for models that draw in their forward.
        poisoned: of a case that poisons, the targets' predicted classes after a training on the
            attacked graph, see `predicted_if_poisoned`.
        target_weights: see `Outcome`.
    """

    model: TrainedModel
    graph: Data
    threat: Threat
    seed: int
    poisoned: Callable[[Perturbation], Tensor] | None = None
    target_weights: bytes = b""

    @property
    def targets(self) -> Tensor:
        """int64 [t], on the CPU."""
        return self.threat.targets.cpu()

    @property
    def classes(self) -> Tensor:
        """True classes of the targets, int64 [t]."""
        result: Tensor = self.graph.y.cpu()[self.targets]
        return result

    @property
    def before(self) -> Tensor:
        """Predicted classes of the targets on the clean graph, int64 [t]."""
        return self.model.predicted[self.targets]

    def after(self, perturbation: Perturbation) -> Tensor:
        """Predicted classes of the targets after the attack, int64 [t]."""
        if self.poisoned is not None:
            return self.poisoned(perturbation)
        return predicted_after(self.model, self.graph, perturbation, self.threat, self.seed)

    def accuracy(self, predicted: Tensor) -> float:
        """The figure of predictions int64 [t] of the targets, as in outcomes, to the bit."""
        right = (predicted == self.classes).numpy()
        return right_share(np.packbits(right).tobytes(), right.size, self.target_weights)


@contextmanager
def replaying(
    evaluator: Evaluator, subject: Subject, source: Source, case: Case, seed: int
) -> Iterator[Replay]:
    """Train the victim of a repeat, unless the evaluator has it, with torch's threads set for it.

    Raises:
        ModelError: it cannot be trained.
        UsageError: the dataset does not have the difficulty of the case.
    """
    dataset = evaluator.dataset(source)
    threat = threat_of(dataset, case.difficulty, case.scenario, case.attack)
    with threads_for(dataset.num_nodes):
        victim = evaluator.victim(subject, source, seed)
        poisoned = partial(predicted_if_poisoned, victim, dataset, threat.targets)
        poisons = case.scenario == POISONING
        given = poisoned if poisons else None
        weights = evaluator.target_weights(source, threat)
        yield Replay(victim, dataset.graph, threat, seed, given, weights)


def sizes(dataset: AnyDataset) -> dict[str, int]:
    """Sizes of a dataset, by which people recognise it."""
    result = {
        "nodes": dataset.num_nodes,
        "edges": dataset.num_edges,
        "features": dataset.num_features,
        "classes": dataset.num_classes,
    }
    if isinstance(dataset, GraphDataset):
        return result | {"test graphs": dataset.num_graphs}
    return result | {"test nodes": int(dataset.test["full"].numel())}
