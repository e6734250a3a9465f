"""Errors of writing, distinct from errors of the sources that are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grb_check.errors import DataError


class UnwritableError(DataError):
    """A file cannot be written, whatever its source."""


@contextmanager
def writing(where: Path) -> Iterator[None]:
    """Turn errors of the file system into an `UnwritableError` that names the path."""
    try:
        yield
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        reason = getattr(error, "strerror", None) or error
        msg = f"{where}: cannot be written: {reason}; make room or choose another directory"
        raise UnwritableError(msg) from error
