"""The check that a pack has what a run needs, before the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grb_check.errors import UsageError
from grb_check.evaluation.fallbacks import black_box_trials
from grb_check.evaluation.store_keys import ATTACK_SEEDS, request_of
from grb_check.evaluation.trial import Trial
from grb_check.store.pack import Pack, PerturbationRequest, lacking


def check_pack(pack: Pack, trials: Iterable[Trial]) -> None:
    """Check that a pack has every perturbation that cases need, and that these are not damaged.

    Args:
        pack: of the run.
        trials: of the cases, with any seed.

    Raises:
        UsageError: names the first case that lacks one, and what the pack has instead.
    """
    lacks: dict[str, list[PerturbationRequest]] = {}
    known: dict[PerturbationRequest, bool] = {}
    for trial in trials:
        for requested, black_box in requests_of(trial).items():
            if not requested.description:
                raise UsageError(
                    f"{trial.case.id}: attack {requested.scenario}/{requested.attack} has no "
                    f"version, so that no pack has its perturbations; give it one, see "
                    f"docs/how-to/own-attack.md, or leave the case out"
                )
            if requested not in known:
                known[requested] = pack.check(requested, black_box.threat)
            if not known[requested]:
                lacks.setdefault(trial.case.id, []).append(requested)
    if lacks:
        raise lacking(pack, lacks)


def requests_of(trial: Trial) -> Mapping[PerturbationRequest, Trial]:
    """Return the black-box trials that a trial may need in its repeats, by what they want.

    A case in doubt has more repeats than its run.
    """
    result = [
        replace(black_box_trial, seed=seed)
        for part in trial.parts
        for black_box_trial in black_box_trials(part)
        for seed in range(ATTACK_SEEDS)
    ]
    return {request_of(black_box_trial): black_box_trial for black_box_trial in result}
