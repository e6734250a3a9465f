"""grb_check: attack a graph neural network as the Graph Robustness Benchmark does, in pytest.

Public names are loaded on first use, so that an installed but unused plugin costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grb_check.adversarial import AdversarialSettings, adversarial_training
    from grb_check.attacks.threat import Perturbation
    from grb_check.cases import Case
    from grb_check.errors import (
        AttackError,
        BudgetError,
        DataError,
        GrbCheckError,
        ModelError,
        UsageError,
    )
    from grb_check.evaluation import evaluate
    from grb_check.gates import Gate, Verdict, judge
    from grb_check.outcomes import Outcome, Repeat
    from grb_check.returned import Encoder, SelfTrained, Trained, wrap
    from grb_check.training import TrainingSettings

__version__ = "0.1.0"

__all__ = [
    "AdversarialSettings",
    "AttackError",
    "BudgetError",
    "Case",
    "DataError",
    "Encoder",
    "Gate",
    "GrbCheckError",
    "ModelError",
    "Outcome",
    "Perturbation",
    "Repeat",
    "SelfTrained",
    "Trained",
    "TrainingSettings",
    "UsageError",
    "Verdict",
    "adversarial_training",
    "evaluate",
    "judge",
    "wrap",
]

_HOMES = {
    "adversarial": ("AdversarialSettings", "adversarial_training"),
    "cases": ("Case",),
    "attacks.threat": ("Perturbation",),
    "errors": (
        "AttackError",
        "BudgetError",
        "DataError",
        "GrbCheckError",
        "ModelError",
        "UsageError",
    ),
    "evaluation": ("evaluate",),
    "gates": ("Gate", "Verdict", "judge"),
    "outcomes": ("Outcome", "Repeat"),
    "returned": ("Encoder", "SelfTrained", "Trained", "wrap"),
    "training": ("TrainingSettings",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"grb_check.{home}"), name)
    raise AttributeError(f"module 'grb_check' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
