"""Outcomes of architectures and faults in the cases of the suite `smoke`, kept in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome
from grb_check.cases.selection import expand
from grb_check.cases.suites import SUITES
from grb_check.datasets import Source
from grb_check.evaluation.evaluator import Evaluator
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject

SMOKE: Final = SUITES["smoke"]
CASES: Final = tuple(expand([""], list(SMOKE.datasets), SMOKE.difficulties, SMOKE.attacks))

Outcomes = Mapping[Case, Outcome]


class Measured:
    """Outcomes by model, each measured once.

    Args:
        folder: of the store, and of a file for each model and number of repeats.
        repeats: of each case.
    """

    def __init__(self, folder: Path, repeats: int) -> None:
        self._folder = folder
        self._repeats = repeats
        self._evaluator = Evaluator(store=Store(folder / "store"), device="cpu")
        self._source: Source = datasets.find(SMOKE.datasets[0], datasets.Places())
        folder.mkdir(parents=True, exist_ok=True)

    def outcomes(self, name: str, factory: Callable[..., object]) -> Outcomes:
        """Return the outcomes of a model in `CASES`, from its file if there is one."""
        file = self._folder / f"{name.replace(' ', '_')}-{self._repeats}.json"
        if not file.exists():
            subject = as_subject(factory, name=name)
            measurements = [
                self._evaluator.outcome(subject, self._source, case, self._repeats).to_dict()
                for case in CASES
            ]
            file.write_text(json.dumps(measurements))
        by_case = {}
        for outcome in map(Outcome.from_dict, json.loads(file.read_text())):
            if outcome.case in CASES:
                bare = tuple(replace(repeat, references={}) for repeat in outcome.repeats)
                shipped = self._evaluator.facts(self._source, outcome.case).shipped
                by_case[outcome.case] = replace(outcome, repeats=bare, shipped=shipped)
        return by_case
