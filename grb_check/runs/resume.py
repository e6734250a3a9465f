"""Measurements that an interrupted run has finished, cached in the store."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from functools import cache
from importlib.metadata import distributions
from typing import TYPE_CHECKING

import msgspec

from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets import Source
from grb_check.store.store import Store
from grb_check.user_code.sources import imported_digest

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.victims.subject import Subject


class FinishedMeasurements:
    """Finished measurements, each under a key made from everything that it depends on.

    They are always kept, and used only if a run is resumed: what a model depends on is known as far
    as Python's imports tell (see `user_code.sources.sources_digest`), not if it reads other files.
    Of a revision all files are known.

    Args:
        evaluator: measures what is not finished.
        store: that keeps them.
        resume: whether they are used.
        files: digest of all files that a model may depend on; empty for those that it imports.
    """

    def __init__(
        self, evaluator: Evaluator, store: Store, *, resume: bool, files: str = ""
    ) -> None:
        self._evaluator = evaluator
        self._store = store
        self._resume = resume
        self._files = files
        self._sources: dict[str, str] = {}  # of the models of this run

    def repeat(
        self, subject: Subject, source: Source, case: Case, seed: int, *, repeats: int
    ) -> RepeatResult:
        """Measure one repeat of a case, see `Evaluator.repeat`, unless it is finished.

        A result from the store lacks its perturbation.
        """
        evaluator = self._evaluator
        facts = evaluator.facts(source, case)
        key = None
        if subject.target and facts.attack:  # else a change cannot be detected
            key = self._store.key(
                kind="repeat",
                model=f"{subject.target} {sorted(subject.args.items())!r}",
                sources=self._sources_of(subject.target),
                packages=packages_digest(tuple(sys.path)),
                environment=repr(sorted(evaluator.environment.items())),
                case=replace(case, model="").id,
                facts=repr(facts),
                seed=seed,
            )
        saved = self._store.load_text(key) if key is not None and self._resume else None
        if saved is not None and key is not None:
            try:
                return msgspec.json.decode(saved, type=RepeatResult)
            except msgspec.MsgspecError as error:
                self._store.discard(key, f"does not hold a measurement: {error}")
        result = evaluator.repeat(subject, source, case, seed, repeats=repeats)
        if key is not None:
            lean = replace(result, perturbation=b"")
            self._store.save_text(key, msgspec.json.encode(lean).decode())
        return result

    def _sources_of(self, target: str) -> str:
        if self._files:
            return self._files
        if target not in self._sources:
            self._sources[target] = imported_digest(target)
        return self._sources[target]


@cache
def packages_digest(_path: tuple[str, ...]) -> str:
    """Return a digest of the names and versions of all packages in these directories.

    Reading them takes a third of a second.
    """
    result = sorted(
        {f"{distribution.name} {distribution.version}" for distribution in distributions()}
    )
    return hashlib.sha256("\n".join(result).encode()).hexdigest()
