"""A second try for what was lost with its worker."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from grb_check.errors import LostError
from grb_check.execution.executors import Workers, breaks_all, worker_lost

TRIES: Final = 2


class Calls(Protocol):
    """Calls to workers."""

    @property
    def workers(self) -> Workers:
        """The workers that the calls run in."""
        ...

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Call a function of a module; the future raises `LostError` if it was lost twice."""
        ...

    def close(self) -> None:
        """Cancel everything, and close the workers."""
        ...


@dataclass(eq=False)
class _Job:
    """A call, the future that its caller waits for, and its tries so far."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Future[Any] = field(default_factory=Future)
    tries: int = 0
    start: int = 0  # of the workers, when the last try began


class Retrying:
    """Gives calls to workers in order, as many at a time as they have room for.

    A call whose worker was lost is tried once more, elsewhere if there is another worker. If all
    workers broke down together, as a `ProcessPoolExecutor` does, or there was not enough memory,
    nobody knows which call is to blame: each is tried again alone, after all others.

    Args:
        workers: which are closed with this object.
    """

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._waiting: deque[_Job] = deque()
        self._alone: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._start = 0
        # Workers must not be given calls in callbacks of futures: some hold locks then.
        self._events: queue.SimpleQueue[tuple[_Job, Future[Any] | None] | None]
        self._events = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Call a function of a module; the future raises `LostError` if it was lost twice."""
        job = _Job(function, arguments)
        self._events.put((job, None))
        return job.future

    def close(self) -> None:
        """Cancel everything, and close the workers."""
        self._events.put(None)
        self.workers.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            job, inner = event
            if inner is None:
                self._waiting.append(job)
            else:
                self._running.discard(job)
                self._settle(job, inner)
            self._fill()
        for job in (*self._waiting, *self._alone, *self._running):
            job.future.cancel()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.workers.width:
            self._begin(self._waiting.popleft())
        if self._alone and not self._running:
            self._begin(self._alone.popleft())

    def _begin(self, job: _Job) -> None:
        job.tries, job.start = job.tries + 1, self._start
        self._running.add(job)
        try:
            inner = self.workers.submit(job.function, *job.arguments)
        except Exception as error:  # workers that are closed or broken refuse calls
            inner = Future()
            inner.set_exception(error)
        inner.add_done_callback(lambda done: self._events.put((job, done)))

    def _settle(self, job: _Job, inner: Future[Any]) -> None:
        """Pass a result or error on, or try again."""
        error = _error_of(inner)
        if error is None:
            job.future.set_result(inner.result())
            return
        broken = breaks_all(error)
        if broken and job.start == self._start:  # the first to tell
            self._start += 1
            with contextlib.suppress(Exception):  # the next call tells what is wrong
                self.workers.restart()
        memory = isinstance(error, MemoryError)
        if not (memory or worker_lost(error)):
            job.future.set_exception(error)
        elif job.tries < TRIES:
            (self._alone if broken or memory else self._waiting).append(job)
        else:
            text = f"not enough memory: {error}" if memory else f"{error}"
            job.future.set_exception(LostError(f"lost twice: {text}"))


def _error_of(inner: Future[Any]) -> BaseException | None:
    try:
        return inner.exception()
    except BaseException as error:  # CancelledError
        return error
