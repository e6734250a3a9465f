"""Functions that tests send to workers. Imports nothing heavy."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil


def own_process(_: int = 0) -> int:
    """Number of the process."""
    return os.getpid()


def met(folder: str, count: int, name: str) -> tuple[str | None, int]:
    """An environment variable and the number of the process, once so many processes are here."""
    Path(folder, str(os.getpid())).touch()
    while len(list(Path(folder).iterdir())) < count:
        time.sleep(0.02)
    return os.environ.get(name), os.getpid()


def sleep(seconds: float) -> float:
    """Sleep."""
    time.sleep(seconds)
    return seconds


def die(text: str = "") -> None:
    """Write a text and be killed."""
    sys.stderr.write(text)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
