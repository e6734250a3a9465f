"""Functions that tests send to workers. Imports nothing heavy."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from grb_check.execution.run_task import TELL


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def own_process(_: int = 0) -> int:
    """Number of the process."""
    return os.getpid()


def variable(name: str) -> str:
    """An environment variable."""
    return os.environ.get(name, "")


def sleep(seconds: float) -> float:
    """Sleep."""
    time.sleep(seconds)
    return seconds


def die(text: str = "") -> None:
    """Write a text and be killed."""
    sys.stderr.write(text)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: str) -> int:
    """Be killed, unless the file exists, which is written before."""
    path = Path(mark)
    if not path.exists():
        path.write_text("")
        die()
    return os.getpid()


def stop() -> None:
    """Give no sign of life any more."""
    os.kill(os.getpid(), signal.SIGSTOP)


def refuse(text: str) -> None:
    """Raise."""
    raise ValueError(text)


def full() -> None:
    """Raise what a full disk raises."""
    raise OSError(28, "No space left on device")


class Strange(Exception):
    """An error that cannot cross processes."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


def raise_strange() -> None:
    """Raise what cannot be unpickled."""
    raise Strange("strange", "error")


def tell(text: str) -> None:
    """Say what is done, and do it for a while."""
    TELL.get()(text)
    time.sleep(3)


def noise() -> None:
    """Write to both streams of the process."""
    os.write(1, b"to stdout\n")
    os.write(2, b"to stderr\n")
