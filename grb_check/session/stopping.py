"""SIGTERM, as of a job that is cancelled, ends a run as Ctrl-C does: with its reports."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


def stop_on_sigterm() -> Callable[[], None]:
    """Let SIGTERM interrupt this process, and return what undoes that.

    Nothing changes outside the main thread, or where somebody else handles the signal.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, _interrupt)

    def undo() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    return undo


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt("SIGTERM")
