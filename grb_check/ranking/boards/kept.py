"""What was measured for a leaderboard, kept case by case, so that work is never done twice."""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from sys import modules
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grb_check.attacks.budgets import settings_for, threat_for
from grb_check.attacks.names import split_budget
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair, describe, load_attack
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation import trials
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.store import StoreWarning
from grb_check.evaluation.surrogates import kinds_for
from grb_check.evaluation.trials import describe_threat
from grb_check.models.zoo import known
from grb_check.ranking.boards.plan import Plan
from grb_check.training import nodes

LIBRARIES: Final = ("torch", "torch_geometric", "numpy", "scipy")


@dataclass(frozen=True)
class Measured:
    """A model in one case: its accuracy on the targets in each repeat, as fractions."""

    clean: tuple[float, ...]
    attacked: tuple[float, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> Measured:
        """What a leaderboard wants of an outcome."""
        return cls(
            clean=tuple(repeat.victim.clean for repeat in outcome.repeats),
            attacked=tuple(repeat.victim.attacked for repeat in outcome.repeats),
        )


class Kept:
    """The results of one plan in the store.

    A result is found again if nothing has changed that it depends on: data, threat, versions of
    the model, the attack, training and evaluation, number of repeats, libraries, device. A user's
    model has no version: the sources of its package stand for it. What a user's attack without a
    version did is not kept.

    Args:
        plan: whose results.
        dataset: its data, of which nothing is held on to.
        own: the surrogates on it, for what they are made by.
        attacks: users' attacks by scenario and name.

    Attributes:
        store: where results are.
        attacks: case -> name, version and settings of its attack; None where nothing tells them.
        models: target -> name and version of a model of ours, the target of a user's.
    """

    def __init__(
        self, plan: Plan, dataset: Dataset, own: OwnModels, attacks: Mapping[Pair, Attack]
    ) -> None:
        self.store = own.store
        self.attacks: dict[Case, str | None] = {}
        self.models = {each.target: model_name(each.target) for each in plan.candidates}
        self._repeats = plan.repeats
        self._keys: dict[tuple[str, Case], str | None] = {}
        codes = {target: code_of(target) for target in self.models}
        for case in plan.cases():
            defaults = settings_for(dataset, case.scenario)
            attack = load_attack(case.scenario, case.attack, defaults, attacks)
            self.attacks[case] = describe(attack)
            surrogates = "; ".join(map(own.recipe, kinds_for(attack)))
            budget = split_budget(case.attack)[1]
            threat = threat_for(dataset, case.difficulty, attack.scenario, budget)
            for target, code in codes.items():
                key = self.store.key(
                    kind="leaderboard",
                    dataset=own.fingerprint,
                    name=dataset.name,  # decides on published hyper-parameters
                    model=self.models[target],
                    code=str(code),
                    case=case.cell,
                    attack=str(self.attacks[case]),
                    threat=describe_threat(threat),
                    surrogates=surrogates,
                    training=nodes.PROTOCOL,
                    evaluation=trials.PROTOCOL,
                    repeats=plan.repeats,
                    libraries=libraries(),
                )
                is_known = self.attacks[case] is not None and code is not None
                self._keys[target, case] = key if is_known else None

    def load(self, target: str, case: Case) -> Measured | None:
        """The result of a model in a case, if it is there."""
        key = self._keys[target, case]
        arrays = None if key is None else self.store.load_arrays(key)
        found = None if arrays is None else arrays.get("accuracy")
        if found is None or found.shape != (2, self._repeats) or not _are_fractions(found):
            return None
        clean, attacked = found.tolist()
        return Measured(tuple(clean), tuple(attacked))

    def save(self, target: str, case: Case, measured: Measured) -> None:
        """Keep it."""
        key = self._keys[target, case]
        if key is not None:
            accuracy = np.array([measured.clean, measured.attacked])  # float64 [2, repeats]
            self.store.save_arrays(key, {"accuracy": accuracy})

    def forget(self) -> None:
        """Remove all results of the plan that are there."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            for key in filter(None, self._keys.values()):
                self.store.discard(key, "not wanted any more")


def libraries() -> str:
    """Versions of what this package computes with, and Python's."""
    return ", ".join(
        [*(f"{name} {version(name)}" for name in LIBRARIES), f"Python {platform.python_version()}"]
    )


def model_name(target: str) -> str:
    """Name and version of a model of ours; of any other what the user wrote."""
    ours = known(target)
    return target if ours is None else ours.described


def code_of(target: str) -> str | None:
    """Hex digest of the Python files of the user's package that a model is of.

    Those of the imported module's whole package, or of the module itself where it is in none. Empty
    for a model of ours, which has a version; None for what else of ours a target may name.
    """
    if known(target) is not None:
        return ""
    top = modules[target.partition(":")[0].strip().partition(".")[0]]
    if top.__name__ == "grb_check":
        return None
    folders = [Path(each) for each in getattr(top, "__path__", ())]
    files = {path for folder in folders for path in folder.rglob("*.py")}
    if not folders and getattr(top, "__file__", None):
        files.add(Path(str(top.__file__)))
    sha = hashlib.sha256()
    for path in sorted(files):
        sha.update(hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()


def _are_fractions(values: NDArray[Any]) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())
