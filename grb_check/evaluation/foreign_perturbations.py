"""Perturbations that were made for other models, tried on a model whose attackers know it.

An attack that knows the model should be at least as strong. Where one made on another model is
stronger, the gradients of the model mislead (Carlini et al. 2019, "On Evaluating Adversarial
Robustness", section 4.8): the diagnostic `transfer-stronger`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from grb_check.attacks.threat import Perturbation, verify
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Finding
from grb_check.cases.repeat_results import Made
from grb_check.errors import BudgetError
from grb_check.evaluation import diagnostics
from grb_check.evaluation.own_models import TrainedModel
from grb_check.evaluation.perturbation_bytes import from_bytes
from grb_check.evaluation.trials import Right, Trial, right_after


def stronger_transfers(
    victim: TrainedModel,
    trials: Mapping[Case, Trial],
    own: Mapping[Case, bytes],
    made: Sequence[Made],
) -> dict[Case, Finding]:
    """Return a finding for each case of which another model's perturbation is clearly stronger.

    A perturbation is tried in every case whose threat allows it. It takes one call of the model.

    Args:
        victim: of one repeat.
        trials: of its cases whose attackers know it, in that repeat.
        own: which targets stay right under the perturbation that was counted, packed bits.
        made: in the same repeat.
    """
    tried: dict[int, Right] = {}
    found: dict[Case, Finding] = {}
    for case, trial in trials.items():
        stays = np.unpackbits(
            np.frombuffer(own[case], dtype=np.uint8), count=int(trial.threat.targets.numel())
        ).astype(bool)
        for number, each in enumerate(made):
            if not each.is_foreign(case):
                continue
            perturbation = from_bytes(each.perturbation)
            if not _fits(perturbation, trial):
                continue
            if number not in tried:
                tried[number] = right_after(trial, victim, perturbation)
            what = f"the perturbation of {each.case.id}"
            finding = diagnostics.stronger(diagnostics.TRANSFER, stays, tried[number], what)
            if finding is not None and (case not in found or finding.figure > found[case].figure):
                found[case] = finding
    return found


def _fits(perturbation: Perturbation, trial: Trial) -> bool:
    try:
        verify(perturbation, trial.own.dataset.graph, trial.threat)
    except BudgetError:
        return False
    return True
