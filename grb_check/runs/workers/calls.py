"""The interface of what runs tasks: this process, or workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from grb_check.runs.tasks import Answer, Task
from grb_check.runs.workers.step_files import StepFiles


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Processes that run.

    Attributes:
        executor: to submit tasks to.
        name: for pytest's header.
        width: number of tasks that may be in flight at once.
        close: cancels what is queued, and ends the processes.
        written: returns what they wrote last.
        steps: where they write how far they are; None if they share no folder with this process.
    """

    executor: Executor
    name: str
    width: int
    close: Callable[[], None]
    written: Callable[[], str] = str
    steps: StepFiles | None = None


class Pending(Protocol):
    """The answer to a task, which may be waited for."""

    def done(self) -> bool:
        """Whether `result` need not be waited for."""
        ...

    def result(self) -> Answer:
        """Return the answer, or raise the error of the task."""
        ...


class Calls(Protocol):
    """Runs tasks.

    Attributes:
        name: for pytest's header; empty for this process.
        width: number of tasks that may run at once; 0 if each runs when its answer is asked for.
        steps: how far workers are with steps that tell it, for people; empty if nothing is known.
    """

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def steps(self) -> str: ...

    def submit(self, task: Task) -> Pending:
        """Return the answer to a task, which raises `LostError` if the task was lost twice."""
        ...

    def close(self) -> None:
        """Cancel everything, and release the workers."""
        ...
