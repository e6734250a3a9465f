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
from grb_check.evaluation.trials import Right, Trial, describe_threat, right_after


def stronger_transfers(
    victim: TrainedModel,
    trials: Mapping[Case, Trial],
    own: Mapping[Case, bytes],
    made: Sequence[Made],
) -> dict[Case, Finding]:
    """Return a finding for each case of whose threat another model's perturbation is stronger.

    Clearly stronger than every attack on the model itself under that threat: beside a stronger
    attack of the run a weaker one is no news. A perturbation is tried under every threat that
    allows it, which takes one call of the model.

    Args:
        victim: of one repeat.
        trials: of its cases whose attackers know it, in that repeat.
        own: which targets stay right under the perturbation that was counted, packed bits.
        made: in the same repeat.
    """
    tried: dict[tuple[int, bytes], Right] = {}  # by perturbation and targets
    found: dict[Case, Finding] = {}
    for cases in _by_threat(trials):
        case, trial = cases[0], trials[cases[0]]
        targets = trial.threat.targets.cpu().numpy().tobytes()
        stays = min((_unpacked(own[each], trial) for each in cases), key=np.count_nonzero)
        for number, each in enumerate(made):
            if not any(map(each.is_foreign, cases)):
                continue
            perturbation = from_bytes(each.perturbation)
            if not _fits(perturbation, trial):
                continue
            if (number, targets) not in tried:
                tried[number, targets] = right_after(trial, victim, perturbation)
            finding = diagnostics.stronger(
                diagnostics.TRANSFER,
                stays,
                tried[number, targets],
                f"the perturbation of {each.case.id}",
                "every attack on the model itself",
            )
            if finding is not None and (case not in found or finding.figure > found[case].figure):
                found |= dict.fromkeys(cases, finding)
    return found


def _by_threat(trials: Mapping[Case, Trial]) -> list[list[Case]]:
    """The cases on the same targets with the same budgets, in lists."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case, trial in trials.items():
        groups.setdefault((case.difficulty, describe_threat(trial.threat)), []).append(case)
    return list(groups.values())


def _unpacked(right: bytes, trial: Trial) -> Right:
    count = int(trial.threat.targets.numel())
    return np.unpackbits(np.frombuffer(right, dtype=np.uint8), count=count).astype(bool)


def _fits(perturbation: Perturbation, trial: Trial) -> bool:
    try:
        verify(perturbation, trial.own.dataset.graph, trial.threat)
    except BudgetError:
        return False
    return True
