"""Progress of a run: below the current line of a terminal, or from time to time in a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from grb_check.runs.how_far import HowFar
from grb_check.session.pytest_private import is_controller, is_worker

if TYPE_CHECKING:
    from grb_check.attacks.verdicts import Tell  # imports torch

FIRST: Final = 1.0  # seconds before anything is shown: short steps are not
EVERY: Final = 0.5
SOON: Final = 20.0  # seconds before the first line in a log
LOGGED: Final = 60.0  # seconds between two lines in a log; services end silent jobs
WAKE: Final = 1.0  # seconds after which a step looks whether its line is due


class Ticker:
    """Writes `text (12 s)` below the current line and restores the position of the cursor.

    Args:
        descriptor: of the terminal itself, because pytest captures the usual one during tests.
            The ticker closes it.
        column: returns the position of the cursor in pytest's current line.
        width: columns of the terminal.
    """

    def __init__(self, descriptor: int, column: Callable[[], int], width: int) -> None:
        self._descriptor = descriptor
        self._column = column
        self._width = width
        self._shown = time.monotonic()

    @contextmanager
    def __call__(self, text: str) -> Iterator[Tell]:
        """Show the text and its duration until the context ends.

        What the context gives may be told the share of the step that is done.
        """
        with _shown_by(partial(self._tick, text)) as tell:
            yield tell

    def log(self, text: Callable[[], str]) -> None:
        """Do nothing: the steps are shown as they go on."""

    def poll(self, text: Callable[[], str]) -> None:
        """Show a text that may have changed; call it often."""
        if time.monotonic() - self._shown > EVERY:
            self._shown = time.monotonic()
            self._show(text())

    def clear(self) -> None:
        """Remove what is shown."""
        self._show("")

    def close(self) -> None:
        """Close the descriptor of the terminal."""
        os.close(self._descriptor)

    def _tick(self, text: str, far: HowFar, done: threading.Event) -> None:
        if done.wait(FIRST):
            return
        while True:
            self._show(text, f" ({far})")
            if done.wait(EVERY):
                break
        self._show("")

    def _show(self, text: str, end: str = "") -> None:
        """Show a text, cut so that its end has room."""
        line = (text[: max(0, self._width - 1 - len(end))] + end)[: self._width - 1]
        back = f"\x1b[1A\x1b[{self._column() + 1}G"
        os.write(self._descriptor, f"\n\r{line}\x1b[K{back}".encode())


class LogLines:
    """Writes a line to a log from time to time.

    Args:
        descriptor: of the log itself, because pytest captures the usual one during tests. It is
            closed with this object.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._written = time.monotonic() - LOGGED + SOON
        self._lock = threading.Lock()  # of several steps, one in another

    @contextmanager
    def __call__(self, text: str) -> Iterator[Tell]:
        """Write the text and its duration from time to time until the context ends.

        What the context gives may be told the share of the step that is done.
        """

        def write(far: HowFar, done: threading.Event) -> None:
            while not done.wait(WAKE):
                self.poll(lambda: f"{text} ({far})")

        with _shown_by(write) as tell:
            yield tell

    def poll(self, text: Callable[[], str]) -> None:
        """Write the text if nothing was written for long."""
        with self._lock:
            if time.monotonic() - self._written > LOGGED:
                self._written = time.monotonic()
                os.write(self._descriptor, f"\ngrb: {text()}\n".encode())

    log = poll

    def clear(self) -> None:
        """Do nothing: a log keeps its lines."""

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


@contextmanager
def _shown_by(show: Callable[[HowFar, threading.Event], None]) -> Iterator[Tell]:
    """Show how far a step is, in a thread that is told when the context ends."""
    done, far = threading.Event(), HowFar()
    thread = threading.Thread(target=show, args=(far, done), daemon=True)
    thread.start()
    try:
        yield far.tell
    finally:
        done.set()
        thread.join()


def progress_writer(config: pytest.Config) -> Ticker | LogLines | None:
    """Progress for people, unless workers of pytest-xdist or `-s` write to the terminal.

    Windows' console shows the sequences that move the cursor as text.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    shared = is_worker(config) or is_controller(config) or config.option.capture == "no"
    if reporter is None or shared or reporter.verbosity < -1:
        return None
    if sys.platform == "win32" or not sys.stdout.isatty():
        try:
            return LogLines(os.dup(sys.stdout.fileno()))
        except (OSError, ValueError):  # not a file
            return None
    writer = config.get_terminal_writer()
    return Ticker(
        os.dup(sys.stdout.fileno()), lambda: writer.width_of_current_line, writer.fullwidth
    )
