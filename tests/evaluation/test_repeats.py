"""One repeat of one model on one dataset."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from trial_spies import CPU, DATASET, Linear, train_once

from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets import Places, find
from grb_check.evaluation import harness_models
from grb_check.evaluation.dataset_cache import DatasetCache
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.repeats import measure_repeat, trial_of
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject
from grb_check.victims.wrappers import Trained

CASES = [
    Case("communities", "easy", "injection", "rnd"),
    Case("communities", "hard", "modification", "rnd"),
    Case("communities", "hard", "modification", "dice"),
]


def measure(*cases: Case) -> dict[Case, RepeatResult]:
    """The repeat with seed 1 and an empty cache; times are left out."""
    source = find("synthetic-cora", Places(features="given"))  # it is not read
    cache = DatasetCache(HarnessModels(DATASET, "print", Store(None), CPU), source)
    torch.manual_seed(0)
    subject = as_subject(Trained(Linear().eval()), name="linear")
    results = {
        case: measure_repeat(
            cache,
            subject,
            trial_of(cache.harness, case, {}, 1),
            kinds=("gcn",),
            label="repeat 2/2",
            progress=lambda _: nullcontext(),
        )
        for case in cases
    }
    return {
        case: replace(
            result, measurement=replace(result.measurement, seconds=0.0, training_seconds=0.0)
        )
        for case, result in results.items()
    }


def test_cases_measured_together_are_as_when_measured_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Entries that earlier cases leave in the cache change no figure."""
    monkeypatch.setattr(
        harness_models,
        "surrogate",
        lambda dataset, *, kind, seed, device: train_once(dataset, kind, seed),
    )
    together = measure(*CASES)
    assert list(together) == CASES
    for case in CASES:
        assert measure(case)[case].measurement == together[case].measurement
        assert together[case].measurement.seed == 1
