"""Measurements that an interrupted run has finished, cached in the store."""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import replace
from functools import cache
from importlib.metadata import distributions
from typing import TYPE_CHECKING

import msgspec

from grb_check.attacks.user_attacks import UserAttack
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Measurement
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets import Source
from grb_check.store.store import Store
from grb_check.user_code.sources import imported_digest

if TYPE_CHECKING:
    from grb_check.attacks.protocol import Attack
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.victims.subject import Subject


class FinishedMeasurements:
    """Finished measurements, each under keys made from everything that it depends on.

    What a model depends on is known as far as Python's imports tell (see
    `user_code.sources.sources_digest`), not if it reads other files, such as weights. So it is
    trained again, and measured again unless its weights and answers are those of the measured one,
    too. A run that is resumed trains nothing. Of a revision all files are known.

    Args:
        evaluator: measures what is not finished.
        store: that keeps them.
        resume: whether they are used without a training.
        files: digest of all files that a model may depend on; empty for those that it imports.
    """

    def __init__(
        self, evaluator: Evaluator, store: Store, *, resume: bool, files: str = ""
    ) -> None:
        self._evaluator = evaluator
        self._store = store
        self._resume = resume
        self._files = files
        self._sources: dict[str, str] = {}  # of the models and attacks of this run
        self._digests: dict[tuple[object, Source, int], str] = {}  # of its trained models

    def repeat(
        self, subject: Subject, source: Source, case: Case, seed: int, *, repeats: int
    ) -> RepeatResult:
        """Measure one repeat of a case, see `Evaluator.repeat`, unless it is finished.

        A result from the store lacks its perturbation.
        """
        evaluator = self._evaluator
        facts = evaluator.facts(source, case)
        # Asked for without a store, too: later runs of this process are held to these files.
        sources = self._sources_of(subject.target) if subject.target else ""
        if self._store.folder is None or not (sources and facts.attack):
            # Where a change could not be detected, nothing is kept.
            return evaluator.repeat(subject, source, case, seed, repeats=repeats)
        parts: dict[str, str | int] = {
            "kind": "repeat",
            "model": f"{subject.target} {sorted(subject.args.items())!r}",
            "sources": sources,
            "packages": packages_digest(tuple(sys.path)),
            "environment": repr(sorted(evaluator.environment.items())),
            "case": replace(case, model="").id,
            "facts": repr(facts),
            "seed": seed,
        }
        keys = [self._store.key(**parts)]
        saved = self._saved(keys[0]) if self._resume else None
        begun = time.perf_counter()
        if saved is None and (trained := self._trained(subject, source, seed)):
            attack = evaluator.trial(source, case).attack
            keys.append(self._store.key(**parts, trained=trained, code=self._code_of(attack)))
            saved = self._saved(keys[1])
        if saved is not None:
            return saved
        training = time.perf_counter() - begun
        result = evaluator.repeat(subject, source, case, seed, repeats=repeats)
        result = replace(result, measurement=_with_training(result.measurement, training))
        before = replace(result.measurement, from_store=True, measured_before=True)
        lean = msgspec.json.encode(replace(result, measurement=before, perturbation=b""))
        for key in keys:
            self._store.save_text(key, lean.decode())
        return result

    def _saved(self, key: str) -> RepeatResult | None:
        saved = self._store.load_text(key)
        if saved is None:
            return None
        try:
            return msgspec.json.decode(saved, type=RepeatResult)
        except msgspec.MsgspecError as error:
            self._store.discard(key, f"does not hold a measurement: {error}")
            return None

    def _trained(self, subject: Subject, source: Source, seed: int) -> str:
        key = (subject.key, source, seed)
        if key not in self._digests:
            self._digests[key] = self._evaluator.trained(subject, source, seed)
        return self._digests[key]

    def _code_of(self, attack: Attack) -> str:
        """Digests of what measures, and of a user's attack."""
        plain = attack.attack if isinstance(attack, UserAttack) else attack
        return " ".join(map(self._sources_of, ("grb_check", type(plain).__module__)))

    def _sources_of(self, target: str) -> str:
        if self._files:
            return self._files
        if target not in self._sources:
            self._sources[target] = imported_digest(target)
        return self._sources[target]


def _with_training(measurement: Measurement, training: float) -> Measurement:
    """The measurement with the seconds of a training before it."""
    return replace(
        measurement,
        seconds=measurement.seconds + training,
        training_seconds=measurement.training_seconds + training,
    )


@cache
def packages_digest(_path: tuple[str, ...]) -> str:
    """Return a digest of the names and versions of all packages in these directories.

    Reading them takes a third of a second.
    """
    result = sorted(
        {f"{distribution.name} {distribution.version}" for distribution in distributions()}
    )
    return hashlib.sha256("\n".join(result).encode()).hexdigest()
