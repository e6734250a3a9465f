"""Tasks run in this process, each when its answer is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.runs.process import Process
from grb_check.runs.tasks import Answer, Task
from grb_check.runs.workers.calls import Pending
from grb_check.settings.settings import RunSettings

if TYPE_CHECKING:
    from grb_check.evaluation.repeats import Progress


class Inline:
    """Runs each task in this process when its answer is asked for, so that verdicts come early.

    Args:
        settings: of the run.
        progress: see `Process`.
        attacks: see `Process`.
    """

    name = ""
    width = 0
    steps = ""

    def __init__(
        self,
        settings: RunSettings,
        progress: Progress | None = None,
        attacks: AttackRegistry | None = None,
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._attacks = attacks

    @cached_property
    def process(self) -> Process:
        """The state of this process; torch is imported with it."""
        return Process(self._settings, self._progress, self._attacks)

    def submit(self, task: Task) -> Pending:
        """Return what runs the task when it is asked, once."""
        return _Later(lambda: self.process.answer(task))

    def close(self) -> None:
        """Do nothing."""


class _Later:
    def __init__(self, run: Callable[[], Answer]) -> None:
        self._run = run
        self._answer: Answer | None = None

    def done(self) -> bool:
        return True

    def result(self) -> Answer:
        if self._answer is None:
            self._answer = self._run()
        return self._answer
