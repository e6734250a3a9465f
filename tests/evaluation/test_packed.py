"""Runs that take their black-box perturbations from a pack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from trial_spies import (
    ALL_KINDS,
    CASE,
    CPU,
    DATASET,
    THREAT,
    Changing,
    Spy,
    ready,
    train_once,
)

from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets.dataset import Dataset
from grb_check.errors import BudgetError, GradientError, UsageError
from grb_check.evaluation import harness_models
from grb_check.evaluation.black_box import black_box
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.packed import check_pack, requests_of
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.store_keys import ATTACK_SEEDS
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box import white_box
from grb_check.gradients.victim import Victim
from grb_check.store.pack import Pack, write_pack
from grb_check.store.store import Store

pytestmark = pytest.mark.usefixtures("short_trainings")
KINDS = ("gcn", "gin")  # of references


@pytest.fixture(autouse=True)
def trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness's own models are trained once for all tests."""

    def train(dataset: Dataset, *, kind: str, seed: int, device: torch.device) -> Victim:
        return train_once(dataset, kind, seed)

    monkeypatch.setattr(harness_models, "surrogate", train)


def trial(attack: object, case: Case = CASE, folder: Path | None = None) -> Trial:
    models = HarnessModels(DATASET, DATASET.fingerprint(), Store(folder), CPU)
    return Trial(models, attack, THREAT, case, 0)  # type: ignore[arg-type]


def packed(path: Path, given: Trial, seeds: int = ATTACK_SEEDS) -> Pack:
    """The pack of a trial, with the first of its seeds."""
    return write_pack(
        path,
        (
            (key, on_surrogates(request_trial)[0])
            for key, request_trial in requests_of(given).items()
            if request_trial.seed < seeds
        ),
    )


def from_pack(given: Trial, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """The trial with the pack, in which the training of a surrogate is an error."""

    def no_surrogate(_: HarnessModels, kind: str) -> TrainedModel:
        raise AssertionError(f"surrogate {kind} is trained")

    monkeypatch.setattr(HarnessModels, "surrogate", no_surrogate)
    models = HarnessModels(DATASET, DATASET.fingerprint(), given.harness.store, CPU, pack=pack)
    return replace(given, harness=models)


def facts(measured: RepeatResult) -> object:
    """All but the times, and whether the perturbation was made now."""
    return replace(measured.measurement, from_store=True)


@pytest.mark.slow
@pytest.mark.parametrize("surrogates", [("gcn",), ALL_KINDS])
def test_a_black_box_case_is_the_same_from_a_pack_without_a_surrogate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surrogates: tuple[str, ...]
) -> None:
    """The measurement and the scores of references."""
    given = trial(Spy(surrogates=surrogates))
    once = facts(black_box(given, ready(), KINDS))
    pack = packed(tmp_path / "a.npz", given)
    again = black_box(from_pack(given, pack, monkeypatch), ready(), KINDS)
    assert facts(again) == once
    assert again.measurement.from_store


@pytest.mark.slow
@pytest.mark.parametrize("gradient", [True, False])
def test_a_white_box_case_is_the_same_from_a_pack_without_a_surrogate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gradient: bool
) -> None:
    """Its variant on a surrogate and its random comparison are there, and what a search by queries
    needs for a victim without gradients: the attack on each surrogate."""
    case = replace(CASE, attack="fgsm+white-box")
    given = trial(load_attack("injection", case.attack, {"iterations": 2}), case)
    victim = ready()
    if not gradient:
        rule = lambda x, _: (x[:, :3] > 0).float()  # noqa: E731
        monkeypatch.setattr(victim.victim.module, "forward", rule)
    once = facts(white_box(given, victim, KINDS))
    pack = packed(tmp_path / "a.npz", given)
    victim.missing_gradients.clear()
    given = from_pack(given, pack, monkeypatch)
    check_pack(pack, [given])
    assert facts(white_box(given, victim, KINDS)) == once


def test_a_perturbation_of_a_pack_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like that of an attack; the error names the pack and the case."""
    given = trial(Spy())
    beyond = Perturbation(injected_x=torch.zeros(3, DATASET.num_features))
    key = next(iter(requests_of(given)))
    pack = write_pack(tmp_path / "a.npz", [(key, beyond)])
    with pytest.raises(BudgetError, match=r"a\.npz', communities/.*/spy: injected_x: 3"):
        black_box(from_pack(given, pack, monkeypatch), ready())


def test_that_a_surrogate_gives_no_gradient_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A white-box case then has no transferred variant, as in the run that was packed."""
    case = replace(CASE, attack="fgsm+white-box")
    given = trial(load_attack("injection", case.attack, {"iterations": 1}), case)
    perturbations = {
        key: GradientError("none") if key.attack == "fgsm" else on_surrogates(request_trial)[0]
        for key, request_trial in requests_of(given).items()
    }
    pack = write_pack(tmp_path / "a.npz", perturbations.items())
    assert {key.attack for key in perturbations} == {"fgsm", "rnd"}
    result = white_box(from_pack(given, pack, monkeypatch), ready())
    assert result.measurement.method == "adaptive"


def test_what_is_lacking_is_an_error_that_names_the_case(tmp_path: Path) -> None:
    """Before any attack: a repeat, or a comparison that a white-box case needs besides."""
    given = trial(Spy())
    pack = packed(tmp_path / "a.npz", given, seeds=2)
    with pytest.raises(UsageError, match="injection/spy needs repeat 3, but it has"):
        check_pack(pack, [given])
    case = replace(CASE, attack="fgsm+white-box")
    white = trial(load_attack("injection", case.attack), case)
    with pytest.raises(UsageError, match="lacks 20 perturbations that 1 case may"):
        check_pack(pack, [white])


def test_an_attack_without_a_version_cannot_be_in_a_pack(tmp_path: Path) -> None:
    """Nothing tells whether it is still the same attack."""
    pack = packed(tmp_path / "a.npz", trial(Spy()))
    with pytest.raises(UsageError, match="spy has no version"):
        check_pack(pack, [trial(Changing("black-box"))])
