"""Makes a leaderboard: every model of a plan under every attack, one model after another."""

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
from grb_check.errors import ModelError, UsageError, choose, one_line
from grb_check.evaluation.arena import our_warnings
from grb_check.evaluation.devices import resolve_device, threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.store import Store
from grb_check.models.zoo import known
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell
from grb_check.ranking.boards.kept import Kept, Measured, libraries
from grb_check.ranking.boards.plan import Candidate, Plan
from grb_check.victims.subject import as_subject

Say: TypeAlias = Callable[[str], object]

MINUTE: Final = 60
HOUR: Final = 3600


class Made(NamedTuple):
    """A leaderboard, and why each model that is not on it failed."""

    board: Board
    failed: Mapping[str, str]


class Maker:
    """One leaderboard in the making.

    Each result is kept in the store at once. A second run takes from there what the first has, so
    that it goes on where that was interrupted. Every model has an evaluator of its own, so that
    nothing stays in memory of those that are done; they share perturbations and surrogates through
    the store.

    Args:
        plan: of what.
        store: of results, and of perturbations.
        device: a torch device, or auto.
        attacks: users' attacks by scenario and name.
        say: told what happens, line by line.

    Attributes:
        done: how many cases have a result.
        total: how many there are, of all models but those that failed.

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
            self._kept = Kept(plan, dataset, own, self._attacks)
        self._results: dict[tuple[str, Case], Measured] = {}
        self.total = len(plan.candidates) * len(self._cases)

    @property
    def done(self) -> int:
        return len(self._results)

    def forget(self) -> None:
        """Remove what earlier runs have kept of this plan."""
        self._kept.forget()

    def make(self) -> Made:
        """Measure what is missing.

        Raises:
            ModelError: no model is left.
            AttackError, BudgetError: a user's attack is at fault.
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
                measured = self._kept.load(candidate.target, case)
                if measured is not None:
                    self._results[candidate.title, case] = measured
        if self._results:
            self._say(f"{self.done} of {self.total} cases are there from an earlier run")

    def _missing(self, candidate: Candidate) -> list[Case]:
        return [case for case in self._cases if (candidate.title, case) not in self._results]

    def _measure(self, candidate: Candidate, clock: _Clock) -> None:
        missing = self._missing(candidate)
        if not missing:
            return
        evaluator = Evaluator(
            store=self._kept.store, device=str(self._device), attacks=self._attacks
        )
        subject = as_subject(candidate.target, name=candidate.title)
        for case in missing:
            time_left = clock.reading(self.done, self.total)
            self._say(f"{self.done + 1}/{self.total} {candidate.title} {case.cell} ({time_left})")
            outcome = evaluator.outcome(subject, self._plan.source, case, self._plan.repeats)
            self._note(outcome.warnings)
            measured = Measured.of(outcome)
            self._kept.save(candidate.target, case, measured)
            self._results[candidate.title, case] = measured

    def _note(self, texts: Sequence[str]) -> None:
        """Say what was warned of, each once: the data's notices come with every model."""
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
                measured = self._results[title, case]
                attack = f"{case.scenario}/{case.attack}"
                cells[attack, title, case.difficulty] = Cell.of(measured.attacked)
                cells.setdefault((NO_ATTACK, title, case.difficulty), Cell.of(measured.clean))
        return Board(
            name=plan.name,
            dataset=plan.source.name,
            difficulties=plan.difficulties,
            attacks=tuple(map("/".join, plan.attacks)),
            defences=titles,
            cells=cells,
            models={
                each.title: self._kept.models[each.target]
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
                f"attack {name}: {self._kept.attacks[case] or 'of unknown version'}"
                for name, case in attacks.items()
            ),
            *(f"left out {title}: {reason}" for title, reason in failed.items()),
        )


class _Clock:
    """How long it has taken, and how long it may still take."""

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
