"""Black-box attacks: made on surrogates, and applied to the victim."""

from __future__ import annotations

from collections.abc import Sequence

from grb_check.cases.outcomes import MAIN_REFERENCE
from grb_check.cases.repeat_results import RepeatResult
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.references import black_box_references
from grb_check.evaluation.results import measured
from grb_check.evaluation.scores import scores_after
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial


def black_box(
    trial: Trial, victim: TrainedModel, kinds: Sequence[str] = (MAIN_REFERENCE,)
) -> RepeatResult:
    """Attack the surrogates, and apply the perturbation to the victim.

    The attack sees true labels of training and validation nodes only. Its perturbation does not
    depend on the victim, and is stored.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        kinds: of the references to attack as well.

    Raises:
        BudgetError: the attack did more than its threat allows.
    """
    perturbation, from_store = on_surrogates(trial)
    scores = scores_after(trial, victim, perturbation)
    references = black_box_references(trial, perturbation, kinds)
    return measured(trial, victim, perturbation, from_store, scores, references)
