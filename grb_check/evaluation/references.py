"""Scores of the references under the perturbations of black-box attacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grb_check.attacks.threat import Perturbation
from grb_check.cases.outcomes import UNDEFENDED, Scores, learned
from grb_check.evaluation.results import facts_of
from grb_check.evaluation.scores import Right, left, right_after, right_before, scores
from grb_check.evaluation.store_keys import black_box_reference_key
from grb_check.evaluation.trial import Trial


def black_box_references(
    trial: Trial, perturbation: Perturbation, kinds: Sequence[str]
) -> dict[str, Scores]:
    """Scores of the references of this repeat under the perturbation, by kind; stored."""
    return {kind: _reference_scores(trial, perturbation, kind) for kind in kinds}


def any_learned(trial: Trial, kinds: Sequence[str]) -> bool:
    """Return whether an undefended reference of these kinds has learned the data in this repeat.

    Trains them at their first use, and attacks none.
    """
    majority = facts_of(trial).majority
    clean = (
        left(trial, right_before(trial, trial.harness.reference(kind, trial.seed)))
        for kind in kinds
        if kind in UNDEFENDED
    )
    return any(learned(accuracy, majority) for accuracy in clean)


def _reference_scores(trial: Trial, perturbation: Perturbation, kind: str) -> Scores:
    key = black_box_reference_key(trial, perturbation, kind)
    stored = stored_scores(trial, key)
    if stored is not None:
        return stored
    reference = trial.harness.reference(kind, trial.seed)
    after = right_after(trial, reference, perturbation)
    return save_scores(trial, key, right_before(trial, reference), after)


def stored_scores(trial: Trial, key: str) -> Scores | None:
    """Return the scores that `save_scores` stored under the key, if any."""
    arrays = trial.harness.store.load_arrays(key)
    if arrays is None or arrays["right"].shape != (2, int(trial.threat.targets.numel())):
        return None
    return scores(trial, *arrays["right"])


def save_scores(trial: Trial, key: str, before: Right, after: Right) -> Scores:
    """Store which targets were right, and return the scores."""
    trial.harness.store.save_arrays(key, {"right": np.stack([before, after])})
    return scores(trial, before, after)
