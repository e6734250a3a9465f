"""Results of a leaderboard in the store, one for each model and case."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import numpy as np

from grb_check.attacks.budgets import settings_for, threat_of
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair, describe, load_attack
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation import trials
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.surrogates import kinds_for
from grb_check.evaluation.trials import describe_threat
from grb_check.models.zoo import known
from grb_check.ranking.boards.plan import Plan
from grb_check.store.warning import StoreWarning
from grb_check.training import nodes
from grb_check.user_code.sources import source_digest

LIBRARIES: Final = ("torch", "torch_geometric", "numpy", "scipy")


@dataclass(frozen=True)
class Result:
    """The accuracy of a model on the targets of a case in each repeat, as fractions."""

    clean: tuple[float, ...]
    attacked: tuple[float, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> Result:
        """Return the result of an outcome."""
        return cls(
            clean=tuple(repeat.victim.clean for repeat in outcome.repeats),
            attacked=tuple(repeat.victim.attacked for repeat in outcome.repeats),
        )


class StoredResults:
    """The results of one plan in the store.

    A result depends on data, threat, number of repeats, libraries, device, and the versions of
    model, attack, training and evaluation; it is found again if all are the same. The sources of
    its package take the place of a version for a user's model. Results under a user's attack
    without a version are not stored.

    Args:
        plan: of the leaderboard.
        dataset: its data, to which no reference is kept.
        own: the surrogates on it.
        attacks: users' attacks by scenario and name.

    Attributes:
        store: of results.
        attacks: case -> name, version and settings of its attack; None if unknown.
        adaptive: `scenario/attack` of those that see the model.
        models: target -> name and version of a reference model, or the target itself.
    """

    def __init__(
        self, plan: Plan, dataset: Dataset, own: OwnModels, attacks: Mapping[Pair, Attack]
    ) -> None:
        self.store = own.store
        self.attacks: dict[Case, str | None] = {}
        self.models = {each.target: model_name(each.target) for each in plan.candidates}
        self._repeats = plan.repeats
        self._keys: dict[tuple[str, Case], str] = {}
        sources = {target: code_of(target) for target in self.models}
        adaptive: dict[str, None] = {}
        for case in plan.cases():
            defaults = settings_for(dataset, case.scenario)
            attack = load_attack(case.scenario, case.attack, defaults, attacks)
            if attack.knowledge == "white-box":
                adaptive[f"{case.scenario}/{case.attack}"] = None
            described = self.attacks[case] = describe(attack)
            threat = threat_of(dataset, case.difficulty, case.scenario, case.attack)
            for target, source in sources.items():
                if described is None or source is None:
                    continue
                self._keys[target, case] = self.store.key(
                    kind="leaderboard",
                    dataset=own.fingerprint,
                    name=dataset.name,  # published hyper-parameters depend on it
                    model=self.models[target],
                    code=source,
                    case=case.cell,
                    attack=described,
                    threat=describe_threat(threat),
                    surrogates="; ".join(map(own.recipe, kinds_for(attack))),
                    training=nodes.PROTOCOL,
                    evaluation=trials.PROTOCOL,
                    repeats=plan.repeats,
                    libraries=libraries(),
                )
        self.adaptive = tuple(adaptive)

    def load(self, target: str, case: Case) -> Result | None:
        """Return the result of a model in a case; None if there is none."""
        key = self._keys.get((target, case))
        arrays = None if key is None else self.store.load_arrays(key)
        found = None if arrays is None else arrays.get("accuracy")
        if found is None or found.shape != (2, self._repeats):
            return None
        clean, attacked = map(tuple, found.tolist())
        fractions = all(0.0 <= each <= 1.0 for each in (*clean, *attacked))
        return Result(clean, attacked) if fractions else None

    def save(self, target: str, case: Case, result: Result) -> None:
        """Store the result of a model in a case, unless it depends on something unknown."""
        key = self._keys.get((target, case))
        if key is not None:
            accuracy = np.array([result.clean, result.attacked])  # float64 [2, repeats]
            self.store.save_arrays(key, {"accuracy": accuracy})

    def forget(self) -> None:
        """Remove all results of the plan."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            for key in self._keys.values():
                self.store.discard(key, "removed on request")


def libraries() -> str:
    """Return the versions of the libraries that results depend on, and of Python."""
    return ", ".join(
        [*(f"{name} {version(name)}" for name in LIBRARIES), f"Python {platform.python_version()}"]
    )


def model_name(target: str) -> str:
    """Return name and version of a reference model, or the target of a user's model."""
    ours = known(target)
    return target if ours is None else ours.described


def code_of(target: str) -> str | None:
    """Return the digest of the sources of a user's model; see `source_digest`.

    Empty for a reference model, which has a version; None for anything else in grb_check.
    """
    if known(target) is not None:
        return ""
    top = target.partition(":")[0].strip().partition(".")[0]
    return None if top == "grb_check" else source_digest(target)
