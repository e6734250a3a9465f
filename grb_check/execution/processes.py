"""Processes of this machine, started once, each with one task at a time.

`concurrent.futures.ProcessPoolExecutor` ends as a whole when one of its processes dies, and does
not notice one that hangs. Here each process has a pipe and a thread of its own: one that is killed
or hangs costs its task alone, and another is started.

Loads no torch: a process chooses its GPU before anything of CUDA is loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from grb_check import errors
from grb_check.errors import LostError
from grb_check.execution.run_task import TELL

BEAT: Final = 2.0  # seconds between two signs of life
HANGS: Final = 300.0  # without one; C code may hold the interpreter for minutes
_LAST: Final = 2_000  # characters of what a lost process wrote that are shown


@dataclass(frozen=True)
class _Job:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Future[Any]


class Processes:
    """Processes of this machine; see `execution.executors.Workers`.

    Args:
        count: of processes, at least 1.
        environments: environment variables of each in turn.
        hangs: seconds without a sign of life after which a process is killed.
        module: that each process imports at its start, before it is given anything to do.
    """

    def __init__(
        self,
        count: int,
        environments: Sequence[Mapping[str, str]] = (),
        hangs: float = HANGS,
        module: str = "",
    ) -> None:
        self.name = errors.count(count, "process", "processes")
        self.width = count
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._children = [
            _Child(
                dict(environments[number % len(environments)]) if environments else {},
                hangs,
                module,
            )
            for number in range(count)
        ]
        for child in self._children:
            threading.Thread(target=self._serve, args=(child,), daemon=True).start()
        # Before multiprocessing waits for its processes.
        atexit.register(self.close)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Run a function of a module with these arguments in one of the processes."""
        job = _Job(function, arguments, Future())
        self._jobs.put(job)
        return job.future

    def restart(self) -> None:
        """Do nothing: a lost process is replaced by itself."""

    def doing(self) -> list[str]:
        """Return what each busy process said last about what it does."""
        return [child.doing for child in self._children if child.doing]

    def close(self) -> None:
        """Kill all processes; what they were doing is cancelled."""
        self._closed.set()
        for child in self._children:
            self._jobs.put(None)
            child.kill()
        atexit.unregister(self.close)

    def _serve(self, child: _Child) -> None:
        with contextlib.suppress(Exception):  # told by the first call, which tries again
            child.start()  # at once, since importing torch takes seconds
        while (job := self._jobs.get()) is not None and not self._closed.is_set():
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(child.call(job.function, job.arguments))
            except BaseException as error:  # all of them belong to the future
                job.future.set_exception(error)


class _Child:
    """One process, which is started again when it was lost."""

    def __init__(self, environment: dict[str, str], hangs: float, module: str) -> None:
        self._environment = environment
        self._hangs = hangs
        self._module = module
        self._process: BaseProcess | None = None
        self._pipe: Any = None  # a Connection, or what Windows has in its place
        self._output: Path | None = None
        self._written = ""
        self._ended = False
        self._starting = threading.Lock()
        self.doing = ""

    def start(self) -> None:
        """Start the process if it does not run."""
        with self._starting:
            if self._ended:
                raise LostError("the run has ended")
            if self._process is not None and self._process.is_alive():
                return
            self._stop()
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            descriptor, name = tempfile.mkstemp(prefix="grb_check-", suffix=".txt")
            os.close(descriptor)
            self._output = Path(name)
            # Not daemonic, because those may not have processes of their own, as loaders of
            # batches have.
            self._process = context.Process(
                target=_serve, args=(other, self._environment, name, self._module), daemon=False
            )
            self._process.start()
            other.close()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run a function in the process; what it raises is raised.

        Raises:
            LostError: the process died, or gave no sign of life.
        """
        kind, content = self._answer(function, arguments)
        if kind == "raised":
            raise content
        return content

    def _answer(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
        try:
            self.start()
            self._pipe.send((function, arguments))
            while True:
                if not self._pipe.poll(self._hangs):
                    raise LostError(self._lost(f"gave no sign of life for {self._hangs:g} s"))
                kind, content = self._pipe.recv()
                if kind != "doing":
                    return kind, content
                self.doing = content or self.doing
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise LostError(self._lost("ended unexpectedly")) from error
        finally:
            self.doing = ""

    def kill(self) -> None:
        """End the process for good."""
        with self._starting:
            self._ended = True
        self._stop()

    def _lost(self, how: str) -> str:
        """Say how the process was lost, after making sure that it is."""
        process = self._process
        self._stop()
        code = None if process is None else process.exitcode
        cause = f" (signal {-code})" if code is not None and code < 0 else ""
        written = self._written.strip()
        return f"its process {how}{cause}" + (f"; it wrote: {written}" if written else "")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
        output, self._output = self._output, None
        if output is not None:
            with contextlib.suppress(OSError):
                self._written = output.read_text(errors="replace")[-_LAST:]
                output.unlink()


def _serve(pipe: Connection, environment: dict[str, str], output: str, module: str) -> None:
    """Run what comes through the pipe until it is closed, in a process of its own."""
    os.environ.update(environment)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that was started
    _write_to(output)
    sending = threading.Lock()

    def send(kind: str, content: Any) -> None:
        with sending:
            pipe.send((kind, content))

    def beat() -> None:
        while True:
            time.sleep(BEAT)
            try:
                send("doing", "")
            except OSError:  # nobody waits for the result any more
                os._exit(1)

    threading.Thread(target=beat, daemon=True).start()
    TELL.set(lambda text: send("doing", text))
    if module:
        with contextlib.suppress(Exception):  # the first call tells what is wrong
            importlib.import_module(module)
    for function, arguments in _received(pipe):
        try:
            answer = ("done", function(*arguments))
        except Exception as error:
            answer = ("raised", _picklable(error))
        try:
            send(*answer)
        except OSError:  # nobody waits for the result any more
            os._exit(1)
    os._exit(0)  # without waiting for threads of users' code


def _received(pipe: Connection) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    while True:
        try:
            yield pipe.recv()
        except (EOFError, OSError):
            return


def _picklable(error: Exception) -> Exception:
    """The error, or its text if it cannot cross processes."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a user's class raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _write_to(path: str) -> None:
    """Redirect what this process writes, C code included, away from the terminal."""
    sys.stdout.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    for each in (1, 2):
        os.dup2(descriptor, each)
    os.close(descriptor)
