"""What goes wrong with the folder where datasets are kept, told apart from bad sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grb_check.errors import DataError


class UnwritableError(DataError):
    """A file cannot be written; no other source would change that."""


@contextmanager
def writing(where: Path) -> Iterator[None]:
    """Turn what the file system says into an `UnwritableError` that names the file or folder."""
    try:
        yield
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        reason = getattr(error, "strerror", None) or error
        msg = f"{where}: cannot be written: {reason}; make room or choose another folder"
        raise UnwritableError(msg) from error
