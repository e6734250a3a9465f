"""The perturbations that are shipped for the first run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.cases.suites import SUITES
from grb_check.datasets.formats.bundled import GRAPH
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.packed import check_pack, requests_of
from grb_check.evaluation.surrogates import REFERENCES
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trials import ATTACK_SEEDS, Trial, facts_of, on_surrogates
from grb_check.store.pack import SHIPPED, shipped_pack
from grb_check.store.store import Store

SMOKE = SUITES["smoke"]
LARGEST = 4 << 20  # bytes in the wheel


@pytest.fixture(scope="module")
def trials() -> list[tuple[Case, tuple[Trial, ...]]]:
    """Those of the suite smoke on the bundled graph."""
    evaluator, source = Evaluator(store=Store(None), device="cpu"), datasets.find(GRAPH)
    cases = [Case(GRAPH, level, *pair) for level in SMOKE.difficulties for pair in SMOKE.attacks]
    return [(case, evaluator.trials(source, case)) for case in cases]


def test_the_first_run_makes_no_black_box_perturbation(
    trials: list[tuple[Case, tuple[Trial, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are shipped, verified against their threats, and no surrogate is trained.

    If this fails because an attack or a model has a new version, `python -m benchmarks.shipped`
    makes them again.
    """

    def no_surrogate(_: HarnessModels, kind: str) -> TrainedModel:
        raise AssertionError(f"surrogate {kind} is trained")

    monkeypatch.setattr(HarnessModels, "surrogate", no_surrogate)
    check_pack(shipped_pack(), trials)
    for _, (trial,) in trials:
        for request in requests_of(trial).values():
            assert on_surrogates(request)[1]
    assert SHIPPED.stat().st_size < LARGEST


def test_references_of_the_first_run_are_shipped(
    trials: list[tuple[Case, tuple[Trial, ...]]],
) -> None:
    """Twenty trainings of each, and the most robust model of the leaderboard.

    Not for a run from a pack, whose perturbations are others. If a model, an attack or the protocol
    has a new version, `python -m benchmarks.shipped references` measures them again.
    """
    for case, (trial,) in trials:
        references = facts_of(trial, "").shipped
        assert set(references) > set(REFERENCES), case.id
        assert len(references) == len(REFERENCES) + 1
        assert {len(references[kind].attacked) for kind in REFERENCES} == {20}
        if "injection" in case.scenario:
            assert references["mlp"].attacked == references["mlp"].clean
        packed = HarnessModels(
            trial.harness.dataset,
            trial.harness.fingerprint,
            Store(None),
            trial.harness.device,
            shipped_pack(),
        )
        assert facts_of(replace(trial, harness=packed), "").shipped == {}


def test_repeats_share_five_perturbations(trials: list[tuple[Case, tuple[Trial, ...]]]) -> None:
    """Repeat r has that of the seed r mod 5."""
    trial = trials[0][1][0]
    first, sixth, second = (
        on_surrogates(Trial(trial.harness, trial.attack, trial.threat, trial.case, seed))[0]
        for seed in (0, ATTACK_SEEDS, 1)
    )
    assert all(map(torch.equal, first.tensors(), sixth.tensors()))
    assert not all(map(torch.equal, first.tensors(), second.tensors()))
