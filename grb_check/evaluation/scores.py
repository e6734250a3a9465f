"""Scores of a model: which targets it classifies correctly before and after an attack."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from grb_check.attacks.threat import Perturbation
from grb_check.cases.outcomes import Scores
from grb_check.evaluation.after_attack import predicted_after, predicted_if_poisoned
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial

Right: TypeAlias = NDArray[np.bool_]


def right_before(trial: Trial, model: TrainedModel) -> Right:
    """Targets that a model classifies correctly on the clean graph, bool [t]."""
    return _right(trial, model.predicted[trial.threat.targets.cpu()])


def right_after(trial: Trial, model: TrainedModel, perturbation: Perturbation) -> Right:
    """Targets that a model classifies correctly after the attack, bool [t]."""
    dataset, targets = trial.harness.dataset, trial.threat.targets
    if trial.poisons:
        return _right(trial, predicted_if_poisoned(model, dataset, targets, perturbation))
    return _right(trial, predicted_after(model, dataset.graph, perturbation, targets, trial.seed))


def scores(before: Right, after: Right) -> Scores:
    """Scores of a model from the targets that it classifies correctly before and after."""
    return Scores(
        clean=float(before.mean()),
        attacked=float(after.mean()),
        right_before=np.packbits(before).tobytes(),
        right_after=np.packbits(after).tobytes(),
    )


def _right(trial: Trial, predicted: Tensor) -> Right:
    """Which of the targets' classes int64 [t] are right."""
    truth = trial.harness.dataset.graph.y.cpu()[trial.threat.targets.cpu()]
    right: Right = (predicted == truth).numpy()
    return right
