"""An estimate of the time that the rest of a run takes. Loads no torch.

Trainings are taken to be as long as those that were measured, and a repeat of a case as long as its
others. Cases that were not measured yet are estimated from those that were: attacks that know the
model by their cost beside each other and beside its training, the others by what they cost on
surrogates, whatever the model (`attacks.registry.Row.seconds`). Ratios between models differ by a
factor of two.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from itertools import groupby
from typing import Final

from grb_check.attacks.names import MOST_GANGS, split_gang
from grb_check.attacks.registry import BUILT_IN, MOST_POISONED, Row, is_targeted, source_of
from grb_check.attacks.scenarios import POISONING
from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.errors import count

USERS: Final = Row("", ())  # an attack of a user
TRAINING: Final = 3.4  # seconds, of the GCN and the GAT
SEEDS: Final = 5  # of black-box attacks: later repeats find their perturbations


class Remaining:
    """Books what was measured, and estimates the rest.

    Args:
        repeats: each case of the run that is measured, with its number of repeats.
    """

    def __init__(self, repeats: Mapping[Case, int]) -> None:
        self._left = {
            (case, seed): None for case, count in repeats.items() for seed in range(count)
        }
        self._all = len(self._left)
        self._attacks: dict[Case, dict[int, float]] = {}
        self._trainings: dict[tuple[str, str], dict[int, float]] = {}

    def book(self, values: Mapping[Case, object]) -> None:
        """Take down results of repeats; errors and other values are ignored."""
        for case, result in values.items():
            if isinstance(result, RepeatResult):
                measured = result.measurement
                self._left.pop((case, measured.seed), None)
                attack = measured.seconds - measured.training_seconds
                self._attacks.setdefault(case, {})[measured.seed] = attack
                of_model = self._trainings.setdefault((case.model, case.dataset), {})
                seconds = max(of_model.get(measured.seed, 0.0), measured.training_seconds)
                of_model[measured.seed] = seconds

    @property
    def seconds(self) -> float | None:
        """Seconds of one process for the rest; None before anything was measured."""
        if not self._attacks:
            return None
        rest = 0.0
        for case, repeats in groupby(sorted(self._left, key=_by_case), key=lambda entry: entry[0]):
            seeds = [seed for _, seed in repeats]
            late = sum(seed >= SEEDS for seed in seeds)
            rest += (len(seeds) - late) * self._attack(case, late=False)
            rest += late * self._attack(case, late=True)
        return rest + self._untrained()

    def end(self, case: Case, seed: int) -> None:
        """Take down that a repeat was done, with a result or an error."""
        self._left.pop((case, seed), None)

    def text(self, width: int) -> str:
        """Return `12 of 54 repeats measured, about 9 min left`; empty before anything was measured.

        Args:
            width: number of processes; 0 for this one.
        """
        seconds = self.seconds
        if seconds is None or not self._all:
            return ""
        text = f"{self._all - len(self._left)} of {count(self._all, 'repeat')} measured"
        return f"{text}, {time_left(seconds / max(width, 1))}" if self._left else text

    def _untrained(self) -> float:
        victims = {((case.model, case.dataset), seed) for case, seed in self._left}
        missing = [
            victim for victim in victims if victim[1] not in self._trainings.get(victim[0], {})
        ]
        return sum(self._training(model) for model, _ in missing)

    def _training(self, model: tuple[str, str]) -> float:
        """The usual training of a model on a dataset, else of any."""
        model_times = self._trainings.get(model)
        every = [model_times] if model_times else self._trainings.values()
        return statistics.fmean(second for times in every for second in times.values())

    def _attack(self, case: Case, *, late: bool) -> float:
        """One repeat of a case; a late one finds its perturbation, if it does not see the model."""
        if case in self._attacks:
            known = self._attacks[case].values()
            result = late and not knows_model(case)
            return min(known) if result else statistics.fmean(known)
        alike = [
            other
            for other in self._attacks
            if knows_model(other) == knows_model(case)
            and (other.model == case.model or not knows_model(case))
        ]
        spent = sum(statistics.fmean(self._attacks[other].values()) for other in alike)
        cost = sum(map(cost_of, alike))
        # As if one attack more had been measured: of those that know the model one as long as its
        # training. The first case has the trainings of surrogates and references in its time.
        training = self._training((case.model, case.dataset))
        spent += training if knows_model(case) else TRAINING
        return cost_of(case) * spent / (cost + TRAINING)


def time_left(seconds: float) -> str:
    """Return `about 9 min left`, or seconds where these are few."""
    minutes = round(seconds / 60)
    return f"about {f'{minutes} min' if minutes >= 2 else f'{seconds:.0f} s'} left"


def _by_case(repeat: tuple[Case, int]) -> tuple[str, int]:
    return repeat[0].id, repeat[1]


def knows_model(case: Case) -> bool:
    """Whether an attack sees the model under test, as far as its name tells."""
    modifiers = case.attack.split("+")[1:]
    if case.scenario == POISONING:
        return False
    return "white-box" in modifiers or (_row(case).knows_model and "black-box" not in modifiers)


def cost_of(case: Case) -> float:
    """The cost of an attack beside others of its kind."""
    per_target = case.scenario == POISONING and is_targeted(case.scenario, case.attack)
    gangs = MOST_GANGS if split_gang(case.attack)[1] is not None else 1
    return gangs * _row(case).seconds[knows_model(case)] + per_target * MOST_POISONED * TRAINING


def _row(case: Case) -> Row:
    return BUILT_IN.get(source_of(case.scenario, case.attack), USERS)
