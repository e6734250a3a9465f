"""Measurements that an interrupted run has finished."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from outcome_factory import CASE, outcome

from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.cases.repeat_results import CaseFacts, RepeatResult
from grb_check.datasets import Source, find
from grb_check.errors import StoreWarning
from grb_check.evaluation.evaluator import Evaluator
from grb_check.runs.resume import FinishedMeasurements
from grb_check.store.store import Store
from grb_check.victims.subject import Subject

MADE = outcome([(0.9, 0.5)], [(0.9, 0.3)])
RESULT = RepeatResult(
    facts=CaseFacts(
        targets=MADE.targets, majority=0.1, dataset="f" * 64, origin="", attack="pgd v1", threat=""
    ),
    measurement=MADE.repeats[0],
    warnings=("a warning",),
    attack="pgd",
    methods=(),
    perturbation=b"npz",
)


class Imitation:
    """An evaluator that counts what it measures."""

    def __init__(
        self, facts: CaseFacts = RESULT.facts, digest: str = "w", **environment: str
    ) -> None:
        self.measured = self.trainings = 0
        self.environment = environment
        self._facts, self._digest = facts, digest

    def trained(self, *_: object) -> str:
        self.trainings += 1
        return self._digest

    def trial(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(attack=InjectionPgd())

    def facts(self, *_: object) -> CaseFacts:
        return self._facts

    def repeat(self, *_: object, **__: object) -> RepeatResult:
        self.measured += 1
        return replace(RESULT, facts=self._facts)


def source() -> Source:
    """A dataset that nobody reads."""
    return find("synthetic-cora")


def measure(store: Store, evaluator: Imitation, *, resume: bool = True, **given: Any) -> Any:
    """What comes out for one repeat."""
    target = str(given.pop("target", "grb_check.models:gcn"))
    subject = Subject(target, "gcn", print, dict(given.pop("args", {})), target=target)
    return FinishedMeasurements(cast(Evaluator, evaluator), store, resume=resume).repeat(
        subject,
        source(),
        given.pop("case", CASE),
        int(given.pop("seed", 0)),
        repeats=2,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"target": "grb_check.models:gin"},
        {"args": {"hidden": 3}},
        {"seed": 1},
        {"case": replace(CASE, difficulty="hard")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_everything_that_it_depends_on_counts(tmp_path: Path, change: dict[str, Any]) -> None:
    """Also what the evaluator says of the data, the attack, and where it measures."""
    store, evaluator = Store(tmp_path), Imitation()
    measure(store, evaluator)
    measure(store, evaluator, **change)
    assert evaluator.measured == 2
    for other in (
        Imitation(replace(RESULT.facts, dataset="a" * 64)),
        Imitation(replace(RESULT.facts, attack="pgd v2")),
        Imitation(torch="3.0"),
    ):
        measure(store, other)
        assert other.measured == 1


def test_a_text_that_is_no_measurement_is_discarded(tmp_path: Path) -> None:
    """With a warning, and measured again."""
    store, evaluator = Store(tmp_path), Imitation()
    measure(store, evaluator)
    for path in tmp_path.rglob("*.npz"):
        store.save_text(path.stem, '{"facts": 3}')
    with pytest.warns(StoreWarning, match="does not hold a measurement"):
        assert measure(store, evaluator).facts == RESULT.facts
    assert evaluator.measured == 2


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    """Of the same files, and a training that ended with the same weights and answers."""
    store = Store(tmp_path)
    first, again = (measure(store, Imitation(), resume=False) for _ in range(2))
    assert not first.measurement.measured_before
    before = replace(first.measurement, from_store=True, measured_before=True)
    assert again.measurement == before
    for digest in ("x", ""):
        other = Imitation(digest=digest)
        for _ in range(2):
            measured = measure(store, other, resume=False).measurement
        assert other.measured == (1 if digest else 2)
        assert measured.measured_before == bool(digest)


@pytest.mark.parametrize("resume", [True, False])
def test_nothing_is_trained_to_resume_or_without_a_store(tmp_path: Path, resume: bool) -> None:
    store, evaluator = Store(tmp_path if resume else None), Imitation()
    for _ in range(2):
        measure(store, evaluator, resume=resume)
    assert (evaluator.measured, evaluator.trainings) == ((1, 1) if resume else (2, 0))


def test_a_training_counts_to_the_seconds_of_its_measurement(tmp_path: Path) -> None:
    class Slow(Imitation):
        def trained(self, *_: object) -> str:
            time.sleep(0.01)
            return "w"

    measured = measure(Store(tmp_path), Slow(), resume=False).measurement
    training = measured.training_seconds - RESULT.measurement.training_seconds
    assert training >= 0.01
    assert measured.seconds == pytest.approx(RESULT.measurement.seconds + training)
