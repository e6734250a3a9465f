"""The same attack with less of its budget for flips, where a model is not met with all of it.

A budget is an upper bound: a model that falls back to its features when much of its graph has
changed is attacked from below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.scenarios import MODIFICATION
from grb_check.attacks.threat import Perturbation
from grb_check.errors import ModelError
from grb_check.evaluation.diagnostics import DIAGNOSTICS
from grb_check.evaluation.perturbations import on_model
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial

SHARES: Final = (0.5, 0.25, 0.125)  # of the budget


def fewer_flips(trial: Trial, model: TrainedModel) -> list[Perturbation]:
    """Return what the attack of a trial makes on a model with each of `SHARES` of its budget.

    Empty unless it flips edges of one graph for all targets together. A model may have no gradient
    with some of them.
    """
    threat = trial.threat
    together = threat.batch is None and threat.target_budgets is None
    if threat.scenario != MODIFICATION or not together:
        return []
    result = []
    for budget in dict.fromkeys(int(share * threat.edge_budget) for share in SHARES):
        if not budget:
            continue
        smaller = replace(trial, threat=replace(threat, edge_budget=budget))
        try:
            result.append(on_model(smaller, model))
        except ModelError:
            continue
    return result


def with_note(trial: Trial, perturbation: Perturbation) -> Perturbation:
    """Return a perturbation of a search, with a note if it has far fewer flips than allowed.

    Those of which `budget-unused` would be a finding.
    """
    flips = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    budget = trial.threat.edge_budget
    enough = DIAGNOSTICS["budget-unused"].limit * budget
    if trial.threat.scenario != MODIFICATION or not 0 < flips < enough:
        return perturbation
    note = f"{HELD_BACK}: {flips} of {budget} edge changes"
    return replace(perturbation, notes=(*perturbation.notes, note))
