"""Workers that are this process: one task after another, without pytest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class ThisProcess:
    """Runs each call when it is submitted; see `execution.retrying.Calls`, and `Workers`."""

    name = "this process"
    width = 1

    @property
    def workers(self) -> ThisProcess:
        """Itself."""
        return self

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Call a function, and return its future when it is over."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def doing(self) -> list[str]:
        """Return nothing: nobody watches."""
        return []

    def restart(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
