"""Versions of models and of the training, which names on disk contain, match their settings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.resources import files
from typing import Final

import pytest

from grb_check.attacks.registry import describe
from grb_check.training import nodes
from grb_check.training.adversarial import JUDGING_STEPS, AdversarialSettings, attack_of
from grb_check.training.nodes import TrainingSettings

# Never change a row: raise the version and add one.
TRAINING: Final = {1: "6012d20279038e59"}
TABLES: Final = {
    "models/paper_figures/models": "e7c77a89cc880802",
    "models/paper_figures/contrastive_models": "2be5a71253cb7e45",
    "models/paper_figures/contrastive_set_models": "7e30085ad5c38764",
    "models/paper_figures/adversarial_training": "e418b06d5e402dad",
    "datasets/paper_figures/injection_budgets": "5b44d774838fdcd9",
}


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def test_the_version_of_the_training_stands_for_its_settings() -> None:
    """The defaults of plain and adversarial training are part of the version."""
    adversarial = asdict(AdversarialSettings())
    assert adversarial.pop("attack") is None  # FGSM, by the other settings
    described = [asdict(TrainingSettings()), adversarial, JUDGING_STEPS]
    assert digest(json.dumps(described)) == TRAINING.get(nodes.PROTOCOL), (
        "default settings of a training have changed: raise nodes.PROTOCOL and add a row"
    )


@pytest.mark.parametrize("name", TABLES)
def test_versions_of_models_stand_for_their_hyper_parameters(name: str) -> None:
    """If a table changes, the versions of its models must be raised."""
    content = json.loads(files("grb_check").joinpath(f"{name}.json").read_text("utf-8"))
    figures = {key: value for key, value in content.items() if key not in ("notes", "source")}
    assert digest(json.dumps(figures, sort_keys=True)) == TABLES[name], (
        f"{name} has changed: raise the `version` of its models in zoo.py, and put the digest here"
    )


def test_adversarially_trained_models_are_of_this_version_of_the_attack() -> None:
    """If FGSM gets another version, the versions of these models must be raised."""
    attack = attack_of(AdversarialSettings(step_size=0.1), (0.0, 1.0))
    assert (describe(attack) or "").startswith("injection/fgsm v3 ("), (
        "raise the `version` of every model that is trained under attack in zoo.py"
    )
