"""Tasks given to workers, with a second try for what was lost with one of them."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass, field
from typing import Final

from grb_check.errors import GrbCheckError, LostError, one_line
from grb_check.runs.process import UnexpectedError, run_task
from grb_check.runs.tasks import Answer, Task
from grb_check.runs.workers.calls import Workers

_BROKEN: Final = ("loky", "ShutdownExecutorError")
TRIES: Final = 2
_LOOK: Final = 0.5  # seconds between two looks at the clock, if tasks have a time limit


def breaks_all(error: BaseException) -> bool:
    """Return whether the executor is broken, and has to be started again.

    Dask cancels all tasks when the connection to its scheduler is lost.
    """
    kinds = {
        (error_type.__module__.partition(".")[0], error_type.__name__)
        for error_type in type(error).__mro__
    }
    return isinstance(error, (BrokenExecutor, CancelledError)) or _BROKEN in kinds


def of_the_task(error: BaseException) -> bool:
    """Return whether an error is what `run_task` raised, and not what an executor says of a loss.

    Executors have classes of their own for a worker that died.
    """
    return isinstance(error, (GrbCheckError, UnexpectedError)) and not isinstance(error, LostError)


@dataclass(eq=False)
class _Job:
    """A task, the future that its caller waits for, and its tries so far."""

    task: Task
    future: Future[Answer] = field(default_factory=Future)
    tries: int = 0
    inner: Future[Answer] | None = None  # of the try that is under way
    begun: float = 0.0


class Retrying:
    """Gives tasks to workers in order, as many at a time as they have room for.

    A task that was lost with its worker is run again alone, after all others. If all workers broke
    down together, as processes do when one dies, nobody knows which task is to blame: the workers
    are started again, and each of the tasks that they had is run again alone. One that takes longer
    than it may is lost at once, and the workers are started again.

    Args:
        start: starts the workers, which are closed with this object.
        timeout: seconds that a task may take; None for any number.

    Raises:
        LostError, UsageError: the workers cannot be started.
    """

    def __init__(self, start: Callable[[], Workers], timeout: float | None = None) -> None:
        self._start_workers = start
        self._timeout = timeout
        self._workers = start()
        self.name = self._workers.name
        self._changing = threading.Lock()  # `close` may come from another thread than a restart
        self._refused = ""  # the reason why no more tasks are taken
        self._waiting: deque[_Job] = deque()
        self._alone: deque[_Job] = deque()
        self._running: set[_Job] = set()
        # Executors must not be given tasks in callbacks of futures: some hold locks then.
        self._events: queue.SimpleQueue[tuple[_Job, Future[Answer] | None] | None]
        self._events = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def width(self) -> int:
        """Number of tasks that may run at once."""
        return self._workers.width

    @property
    def steps(self) -> str:
        """How far workers are with steps that tell it."""
        return self._workers.steps.read() if self._workers.steps is not None else ""

    def submit(self, task: Task) -> Future[Answer]:
        """Run a task; the future raises `LostError` if it was lost twice."""
        job = _Job(task)
        self._events.put((job, None))
        if not self._thread.is_alive():
            _lose(job, self._refused)
        return job.future

    def close(self) -> None:
        """Cancel everything, and close the workers."""
        self._events.put(None)
        with self._changing:
            self._refused = "the workers are closed"
            self._close_workers()
        self._thread.join(timeout=5)

    def _close_workers(self) -> None:
        for job in list(self._running):
            if job.inner is not None:  # or an executor may still begin it
                job.inner.cancel()
        self._workers.close()

    def _serve(self) -> None:
        try:
            self._serve_events()
        except Exception as error:  # whoever waits for a task would wait for ever
            self._refused = f"tasks are given to no worker any more: {one_line(error)}"
            for job in (*self._waiting, *self._alone, *self._running):
                _lose(job, self._refused)
        for job in (*self._waiting, *self._alone, *self._running):
            job.future.cancel()

    def _serve_events(self) -> None:
        while True:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=None if self._timeout is None else _LOOK)
                if event is None:
                    break
                job, inner = event
                if inner is None:
                    self._waiting.append(job)
                elif job.inner is inner and job in self._running:  # and not of an older try
                    self._running.discard(job)
                    try:
                        self._settle(job, inner)
                    except Exception as error:
                        _lose(job, one_line(error))
                        raise
            self._end_late_ones()
            self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.width:
            self._begin(self._waiting.popleft())
        if self._alone and not self._running:
            self._begin(self._alone.popleft())

    def _begin(self, job: _Job) -> None:
        job.tries, job.begun = job.tries + 1, time.monotonic()
        self._running.add(job)
        try:
            if self._refused:
                raise LostError(self._refused)
            inner = self._workers.executor.submit(run_task, job.task, self._workers.steps)
        except Exception as error:  # an executor that is closed or broken refuses tasks
            inner = Future()
            inner.set_exception(error)
        job.inner = inner
        inner.add_done_callback(lambda done: self._events.put((job, done)))

    def _settle(self, job: _Job, inner: Future[Answer]) -> None:
        """Pass a result or error on, or try again."""
        error = _error_of(inner)
        if error is None:
            job.future.set_result(inner.result())
            return
        broken = breaks_all(error)
        written = self._workers.written() if broken else ""
        if broken:  # the first to tell: later events of these workers are of an older try
            self._restart()
        memory = isinstance(error, MemoryError)
        if of_the_task(error):
            job.future.set_exception(error)
        elif job.tries < TRIES:
            self._alone.append(job)
        else:
            text = f"not enough memory: {error}" if memory else one_line(error)
            more = f"; it wrote: {written}" if written else ""
            job.future.set_exception(LostError(f"lost twice: {text}{more}"))

    def _end_late_ones(self) -> None:
        if self._timeout is None:
            return
        now = time.monotonic()
        late = [job for job in self._running if now - job.begun > self._timeout]
        for job in late:
            self._running.discard(job)
            job.future.set_exception(
                LostError(f"its task took longer than the {self._timeout:g} s of --grb-timeout")
            )
        if late:
            self._restart()

    def _restart(self) -> None:
        """Start the workers again, and take back the tasks that they had.

        Some executors never end the futures of workers that are gone.
        """
        with self._changing:
            self._close_workers()
            if not self._refused:
                try:
                    self._workers = self._start_workers()
                except GrbCheckError as error:
                    self._refused = one_line(error)
        for job in sorted(self._running, key=lambda job: job.begun):
            self._running.discard(job)
            job.inner = None
            if job.tries < TRIES:
                self._alone.append(job)
            else:
                _lose(job, "lost twice: its workers were started again because of another task")


def _lose(job: _Job, why: str) -> None:
    if not job.future.done():
        job.future.set_exception(LostError(why))


def _error_of(inner: Future[Answer]) -> BaseException | None:
    try:
        return inner.exception()
    except BaseException as error:  # CancelledError
        return error
