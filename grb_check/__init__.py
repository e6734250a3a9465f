"""grb_check: attack a graph neural network as the Graph Robustness Benchmark does, in pytest.

Public names are loaded on first use, so that an installed but unused plugin costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grb_check.attacks.threat import Perturbation
    from grb_check.cases.case import Case
    from grb_check.cases.outcomes import Measurement, Outcome
    from grb_check.cases.verdicts import Verdict
    from grb_check.conformance.check_model import check_model
    from grb_check.conformance.properties import PropertyResult
    from grb_check.errors import (
        AttackError,
        BudgetError,
        DataError,
        GrbCheckError,
        ModelError,
        PropertyError,
        UsageError,
    )
    from grb_check.gate.limits import Gate, judge
    from grb_check.runs.evaluate import evaluate
    from grb_check.runs.run import run
    from grb_check.training.adversarial import AdversarialSettings, adversarial_training
    from grb_check.training.nodes import TrainingSettings
    from grb_check.training.structural_adversarial import (
        StructuralSettings,
        structural_adversarial_training,
    )
    from grb_check.victims.wrappers import Encoder, SelfTrained, Trained, wrap

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
    "Measurement",
    "ModelError",
    "Outcome",
    "Perturbation",
    "PropertyError",
    "PropertyResult",
    "SelfTrained",
    "StructuralSettings",
    "Trained",
    "TrainingSettings",
    "UsageError",
    "Verdict",
    "adversarial_training",
    "check_model",
    "evaluate",
    "judge",
    "run",
    "structural_adversarial_training",
    "wrap",
]

_HOMES = {
    "training.adversarial": ("AdversarialSettings", "adversarial_training"),
    "cases.case": ("Case",),
    "attacks.threat": ("Perturbation",),
    "errors": (
        "AttackError",
        "BudgetError",
        "DataError",
        "GrbCheckError",
        "ModelError",
        "PropertyError",
        "UsageError",
    ),
    "conformance.check_model": ("check_model",),
    "conformance.properties": ("PropertyResult",),
    "runs.evaluate": ("evaluate",),
    "runs.run": ("run",),
    "cases.verdicts": ("Verdict",),
    "gate.limits": ("Gate", "judge"),
    "cases.outcomes": ("Measurement", "Outcome"),
    "victims.wrappers": ("Encoder", "SelfTrained", "Trained", "wrap"),
    "training.nodes": ("TrainingSettings",),
    "training.structural_adversarial": ("StructuralSettings", "structural_adversarial_training"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"grb_check.{home}"), name)
    raise AttributeError(f"module 'grb_check' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
