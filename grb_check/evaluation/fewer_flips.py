"""Fewer flips than the budget allows: parts of what an attack made, and attacks with less of it.

A budget is an upper bound: a model that falls back to its features when much of its graph has
changed is attacked from below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.scenarios import MODIFICATION
from grb_check.attacks.threat import Perturbation, Threat, changes_used
from grb_check.errors import ModelError
from grb_check.evaluation.diagnostics import DIAGNOSTICS
from grb_check.evaluation.perturbations import on_model
from grb_check.evaluation.scores import left, right_after
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial

SHARES: Final = (0.5, 0.25, 0.125)  # of the budget


def strongest_part(trial: Trial, model: TrainedModel, perturbation: Perturbation) -> Perturbation:
    """Return the perturbation, or one of fewer flips under which less of the model is left.

    Where each second flip, of additions and of removals, does as much as all of them, more is not
    better: each fourth and eighth is tried as well, and the attack with less of its budget
    (`fewer_flips`). Of equals it is the whole.
    """
    if not _flips_together(trial.threat):
        return perturbation

    def share(tried: Perturbation) -> float:
        return left(trial, right_after(trial, model, tried))

    half, *smaller = (_each(round(1 / part), perturbation) for part in SHARES)
    whole = share(perturbation)
    if not whole or share(half) > whole:
        return perturbation
    fewer = [half, *smaller, *fewer_flips(trial, model)]
    tried = [perturbation, *(with_note(trial, replace(made, notes=())) for made in fewer)]
    return min(tried, key=share)


def _each(nth: int, perturbation: Perturbation) -> Perturbation:
    return replace(
        perturbation,
        added_edges=perturbation.added_edges[:, ::nth],
        removed_edges=perturbation.removed_edges[:, ::nth],
        added_types=perturbation.added_types[::nth],
    )


def fewer_flips(trial: Trial, model: TrainedModel) -> list[Perturbation]:
    """Return what the attack of a trial makes on a model with each of `SHARES` of its budget.

    Empty unless it flips edges of one graph for all targets together. A model may have no gradient
    with some of them.
    """
    threat = trial.threat
    if not _flips_together(threat):
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
    flips = changes_used(trial.threat, perturbation)
    budget = trial.threat.edge_budget
    enough = DIAGNOSTICS["budget-unused"].limit * budget
    if trial.threat.scenario != MODIFICATION or not 0 < flips < enough:
        return perturbation
    note = f"{HELD_BACK}: {flips} of {budget} edge changes"
    return replace(perturbation, notes=(*perturbation.notes, note))


def _flips_together(threat: Threat) -> bool:
    """Whether a threat is of flips in one graph for all targets together."""
    together = threat.batch is None and threat.target_budgets is None
    return threat.scenario == MODIFICATION and together
