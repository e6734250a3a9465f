"""Make a leaderboard: evaluate every model of a plan under every attack, model by model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Final, NamedTuple, TypeAlias

from grb_check import __version__, datasets
from grb_check.attacks.protocol import Attack
from grb_check.cases.case import Case
from grb_check.datasets.dataset import Dataset
from grb_check.errors import ModelError, UsageError, choose, count, one_line
from grb_check.evaluation.devices import resolve_device, threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.trained_victims import our_warnings
from grb_check.models.zoo import known
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell
from grb_check.ranking.boards.plan import Candidate, Plan
from grb_check.ranking.boards.results import Result, StoredResults, libraries
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject

Say: TypeAlias = Callable[[str], object]

MINUTE: Final = 60
HOUR: Final = 3600


class Made(NamedTuple):
    """A leaderboard, and the reason for each model that failed."""

    board: Board
    failed: Mapping[str, str]


class Maker:
    """Makes one leaderboard.

    Each result is stored at once, so that a run that was interrupted can be resumed. Each model has
    its own evaluator, so that models that are done free their memory; all share perturbations and
    surrogates through the store.

    Args:
        plan: of the leaderboard.
        store: of results and perturbations.
        device: a torch device, or auto.
        say: receives progress and notes, line by line.
        attacks: users' attacks by scenario and name.

    Attributes:
        done: number of cases that have a result.
        total: number of cases, without those of models that failed.

    Raises:
        UsageError, DataError: the device or the data cannot be used.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        store: Store,
        device: str,
        say: Say,
        attacks: Mapping[tuple[str, str], Attack] | None = None,
    ) -> None:
        self._plan = plan
        self._cases = plan.cases()
        self._say = say
        self._attacks = {} if attacks is None else attacks
        self._device = resolve_device(device)
        self._noted: set[str] = set()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dataset = datasets.load(plan.source)
        self._note(our_warnings(caught))
        for level in plan.difficulties:
            choose(f"difficulty of {dataset.name}", level, tuple(dataset.test))
        self._fingerprint = dataset.fingerprint()
        self._described = _described(dataset)
        own = OwnModels(dataset, self._fingerprint, store, self._device)
        with threads_for(dataset.num_nodes):
            self._stored = StoredResults(plan, dataset, own, self._attacks)
        self._results: dict[tuple[str, Case], Result] = {}
        self.total = len(plan.candidates) * len(self._cases)

    @property
    def done(self) -> int:
        """Number of results so far."""
        return len(self._results)

    def forget(self) -> None:
        """Remove the stored results of this plan."""
        self._stored.forget()

    def make(self) -> Made:
        """Evaluate what has no result yet.

        Raises:
            ModelError: every model failed.
            AttackError, BudgetError: a user's attack is wrong.
        """
        failed: dict[str, str] = {}
        self._recall()
        clock = _Clock(self.done)
        for candidate in self._plan.candidates:
            try:
                self._measure(candidate, clock)
            except (ModelError, UsageError) as error:
                failed[candidate.title] = one_line(error)
                self._say(f"{candidate.title} is left out: {error}")
                self.total -= len(self._missing(candidate))
        if len(failed) == len(self._plan.candidates):
            reasons = "; ".join(f"{title}: {reason}" for title, reason in failed.items())
            raise ModelError(f"no model is left for the leaderboard: {reasons}")
        return Made(self._board(failed), failed)

    def _recall(self) -> None:
        for candidate in self._plan.candidates:
            for case in self._cases:
                result = self._stored.load(candidate.target, case)
                if result is not None:
                    self._results[candidate.title, case] = result
        if self._results:
            self._say(f"results from an earlier run: {self.done} of {count(self.total, 'case')}")

    def _missing(self, candidate: Candidate) -> list[Case]:
        return [case for case in self._cases if (candidate.title, case) not in self._results]

    def _measure(self, candidate: Candidate, clock: _Clock) -> None:
        missing = self._missing(candidate)
        if not missing:
            return
        evaluator = Evaluator(
            store=self._stored.store, device=str(self._device), attacks=self._attacks
        )
        subject = as_subject(candidate.target, name=candidate.title)
        for case in missing:
            time_left = clock.reading(self.done, self.total)
            self._say(f"{self.done + 1}/{self.total} {candidate.title} {case.cell} ({time_left})")
            outcome = evaluator.outcome(subject, self._plan.source, case, self._plan.repeats)
            self._note(outcome.warnings)
            result = self._results[candidate.title, case] = Result.of(outcome)
            self._stored.save(candidate.target, case, result)

    def _note(self, texts: Sequence[str]) -> None:
        """Report each warning once: those about the data come with every model."""
        for text in texts:
            if text not in self._noted:
                self._noted.add(text)
                self._say(f"note: {text}")

    def _board(self, failed: Mapping[str, str]) -> Board:
        plan = self._plan
        titles = tuple(each.title for each in plan.candidates if each.title not in failed)
        cells: dict[tuple[str, str, str], Cell] = {}
        for title in titles:
            for case in self._cases:
                result = self._results[title, case]
                attack = f"{case.scenario}/{case.attack}"
                cells[attack, title, case.difficulty] = Cell.of(result.attacked)
                cells.setdefault((NO_ATTACK, title, case.difficulty), Cell.of(result.clean))
        return Board(
            name=plan.name,
            dataset=plan.source.name,
            difficulties=plan.difficulties,
            attacks=tuple(map("/".join, plan.attacks)),
            adaptive=self._stored.adaptive,
            defences=titles,
            cells=cells,
            models={
                each.title: self._stored.models[each.target]
                for each in plan.candidates
                if each.title not in failed
            },
            fingerprint=self._fingerprint,
            split=plan.source.places.split,
            about=self._about(failed),
        )

    def _about(self, failed: Mapping[str, str]) -> tuple[str, ...]:
        plan = self._plan
        attacks = {f"{case.scenario}/{case.attack}": case for case in self._cases}
        seeds = ", ".join(map(str, range(plan.repeats)))
        return (
            f"made {datetime.now(timezone.utc).date().isoformat()} on {self._device.type} with "
            f"grb_check {__version__}, {libraries()}",
            f"dataset {self._described}, fingerprint {self._fingerprint}",
            f"repeats: {plan.repeats}, each with its own training and attack (seeds {seeds})",
            *(
                f"model {each.title}: {each.target}"
                for each in plan.candidates
                if each.title not in failed and known(each.target) is None
            ),
            *(
                f"attack {name}: {self._stored.attacks[case] or 'of unknown version'}"
                for name, case in attacks.items()
            ),
            *(f"left out {title}: {reason}" for title, reason in failed.items()),
        )


class _Clock:
    """The time spent, and an estimate of the time left."""

    def __init__(self, before: int) -> None:
        self._began = time.monotonic()
        self._before = before

    def reading(self, done: int, total: int) -> str:
        passed = time.monotonic() - self._began
        here = done - self._before
        if not here:
            return f"{_duration(passed)} so far"
        left = passed / here * (total - done)
        return f"{_duration(passed)} so far, about {_duration(left)} left"


def _duration(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"


def _described(dataset: Dataset) -> str:
    return (
        f"{dataset.name}: {dataset.origin}; {dataset.num_nodes:,} nodes, "
        f"{dataset.num_edges:,} edges"
    )
