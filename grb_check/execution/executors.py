"""Where tasks run: any executor of `concurrent.futures`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any, Protocol

from grb_check.errors import LostError


class Workers(Protocol):
    """Where tasks run.

    Attributes:
        name: for pytest's header.
        width: number of tasks that may be in flight at once.
    """

    name: str
    width: int

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Run a function of a module."""
        ...

    def doing(self) -> list[str]:
        """Return what busy workers say that they do; nothing if that is not known."""
        ...

    def restart(self) -> None:
        """Make the executor anew, after it broke as a whole."""
        ...

    def close(self) -> None:
        """Cancel what is queued, and end every process that was started."""
        ...


def worker_lost(error: BaseException) -> bool:
    """Whether an error means that a worker was lost, and not that the task failed."""
    return isinstance(error, (BrokenExecutor, LostError))


def breaks_all(error: BaseException) -> bool:
    """Whether the executor as a whole is broken."""
    return isinstance(error, BrokenExecutor)
