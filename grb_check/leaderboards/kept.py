"""What was measured for a leaderboard, kept case by case, so that work is never done twice."""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from sys import modules
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import grb_check
from grb_check.attacks import Pair, describe, load_attack
from grb_check.attacks.budgets import settings_for
from grb_check.attacks.protocol import Attack
from grb_check.cases import Case
from grb_check.datasets.dataset import Dataset
from grb_check.leaderboards.plan import Plan
from grb_check.outcomes import Outcome
from grb_check.own_models import OwnModels
from grb_check.store import StoreWarning
from grb_check.surrogates import kinds_for

LIBRARIES: Final = ("torch", "torch_geometric", "numpy", "scipy")
HARNESS: Final = (  # what makes and trains models, whosever they are
    "models/*.py",
    "attacks/**/*.py",  # adversarial training makes use of them
    "published/models.json",
    "published/injection_budgets.json",
    "training.py",
    "adversarial*.py",
    "probing.py",
    "returned.py",
    "conventions.py",
    "victim*.py",
    "evaluation.py",
    "trials.py",
    "white_box.py",
)


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

    A result is found again if nothing has changed that it depends on: data, the model's name and
    the code of its package, attack with its version, number of repeats, versions of libraries,
    device. What a user's attack without a version did is not kept.

    Args:
        plan: whose results.
        dataset: its data, of which nothing is held on to.
        own: the surrogates on it, for what they are made by.
        attacks: users' attacks by scenario and name.

    Attributes:
        store: where results are.
        described: case -> class, version and settings of its attack; None where nothing tells them.
    """

    def __init__(
        self, plan: Plan, dataset: Dataset, own: OwnModels, attacks: Mapping[Pair, Attack]
    ) -> None:
        self.store = own.store
        self.described: dict[Case, str | None] = {}
        self._repeats = plan.repeats
        self._keys: dict[tuple[str, Case], str | None] = {}
        for case in plan.cases():
            defaults = settings_for(dataset, case.scenario)
            attack = load_attack(case.scenario, case.attack, defaults, attacks)
            self.described[case] = describe(attack)
            surrogates = "; ".join(map(own.recipe, kinds_for(attack)))
            for candidate in plan.candidates:
                key = self.store.key(
                    kind="leaderboard",
                    dataset=own.fingerprint,
                    name=dataset.name,  # decides on published hyper-parameters and budgets
                    model=candidate.target,
                    code=code_of(candidate.target.partition(":")[0]),
                    case=case.cell,
                    attack=str(self.described[case]),
                    surrogates=surrogates,
                    repeats=plan.repeats,
                    versions=versions(),
                )
                known = self.described[case] is not None
                self._keys[candidate.target, case] = key if known else None

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


def versions() -> str:
    """Of this package, what it computes with, and Python."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    python = platform.python_version()
    return f"grb_check {grb_check.__version__}, {libraries}, Python {python}"


@cache
def code_of(module: str) -> str:
    """Hex digest of the Python files that a model is made and trained by.

    Those of the imported module's whole package, or of the module itself where it is in none, and
    the harness's own models and training.
    """
    top = modules[module.partition(".")[0]]
    own = Path(grb_check.__file__).parent
    folders = [Path(each) for each in getattr(top, "__path__", ())]
    files = {path for folder in folders if folder != own for path in folder.rglob("*.py")}
    if not folders and getattr(top, "__file__", None):
        files.add(Path(str(top.__file__)))
    for pattern in HARNESS:
        files |= set(own.glob(pattern))
    sha = hashlib.sha256()
    for path in sorted(files):
        sha.update(hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()


def _are_fractions(values: NDArray[Any]) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())
