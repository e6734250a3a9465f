"""Trainings that take no time, for facts that do not depend on what models have learned."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from grb_check.evaluation import surrogates
from grb_check.training import building
from grb_check.training.nodes import TrainingSettings

EPOCHS = 15


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness's own models learn for few epochs, and so do victims without their own `fit`."""
    published = surrogates._settings
    monkeypatch.setattr(
        surrogates,
        "_settings",
        lambda dataset, kind: replace(published(dataset, kind), max_epochs=EPOCHS),
    )
    monkeypatch.setattr(building, "TrainingSettings", partial(TrainingSettings, max_epochs=EPOCHS))
