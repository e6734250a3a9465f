"""Scores of a model: which targets it classifies correctly before and after an attack."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grb_check.attacks.protocol import model_on
from grb_check.attacks.threat import Perturbation, apply
from grb_check.cases.outcomes import Scores
from grb_check.cases.target_weights import right_share
from grb_check.evaluation.after_attack import predicted_after, predicted_if_poisoned
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.user_code.randomness import isolated_randomness

Right: TypeAlias = NDArray[np.bool_]


def right_before(trial: Trial, model: TrainedModel) -> Right:
    """Targets that a model classifies correctly on the clean graph, bool [t]."""
    return _right(trial, model.predicted[trial.threat.targets.cpu()])


def right_after(trial: Trial, model: TrainedModel, perturbation: Perturbation) -> Right:
    """Targets that a model classifies correctly after the attack, bool [t]."""
    dataset, threat = trial.harness.dataset, trial.threat
    if trial.poisons:
        return _right(trial, predicted_if_poisoned(model, dataset, threat.targets, perturbation))
    return _right(trial, predicted_after(model, dataset.graph, perturbation, threat, trial.seed))


def answers_after(
    trial: Trial, model: TrainedModel, perturbation: Perturbation
) -> tuple[Tensor, Tensor]:
    """Logits [t, c] of the targets on the attacked graph, and their labels [t].

    Of one attacked graph: not of targets that are attacked one by one.
    """
    clean = trial.harness.dataset.graph
    targets = trial.threat.targets.to(clean.x.device)
    attacked = apply(clean, perturbation)
    with isolated_randomness(trial.seed), torch.no_grad():
        logits = model_on(model.victim, attacked)(attacked.x, attacked.edge_index)[targets]
    return logits, clean.y[targets]


def scores_after(trial: Trial, model: TrainedModel, perturbation: Perturbation) -> Scores:
    """Scores of a model on the clean graph and after the attack."""
    return scores(trial, right_before(trial, model), right_after(trial, model, perturbation))


def scores(trial: Trial, before: Right, after: Right) -> Scores:
    """Scores of a model from the targets that it classifies correctly before and after."""
    sides = [np.packbits(side).tobytes() for side in (before, after)]
    clean, attacked = (right_share(bits, before.size, trial.target_weights) for bits in sides)
    return Scores(clean=clean, attacked=attacked, right_before=sides[0], right_after=sides[1])


def left(trial: Trial, right: Right) -> float:
    """The figure of a model that is right on these targets, bool [t]."""
    return right_share(np.packbits(right).tobytes(), right.size, trial.target_weights)


def _right(trial: Trial, predicted: Tensor) -> Right:
    """Which of the targets' classes int64 [t] are right."""
    right: Right = (predicted == trial.classes).numpy()
    return right
